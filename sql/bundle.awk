# Turns SQL files into C. Arguments: NAME FILE... NAME FILE...; a NAME (no ".sql" at its end)
# starts a new list, which becomes `const struct sql_file sql_NAME[]`, ended by a zeroed entry.

BEGIN {
    print "#include \"sql/bundle.h\"\n"
    for (i = 1; i < ARGC; i++) {
        if (ARGV[i] !~ /\.sql$/) {
            if (list != "")
                print "    {0, 0},\n};\n"
            list = ARGV[i]
            print "const struct sql_file sql_" list "[] = {"
            continue
        }
        file = ARGV[i]
        name = file
        sub(/^.*\//, "", name)
        sub(/\.sql$/, "", name)
        printf "    {\"%s\",\n", name
        lines = 0
        while ((status = (getline line < file)) > 0) {
            gsub(/[\\"]/, "\\\\&", line)
            gsub(/\t/, "\\t", line)
            printf "     \"%s\\n\"\n", line
            lines++
        }
        if (status < 0 || lines == 0) {
            print "cannot read " file > "/dev/stderr"
            exit 1
        }
        close(file)
        print "    },"
    }
    print "    {0, 0},\n};"
}
