/*
 * jsonschema_pattern.c: parsed to a tree, compiled to a small program, run on all its threads at
 * once (Thompson 1968, Pike's loop), so that no pattern can be slow.
 */
#include "dsl/jsonschema_pattern.h"

#define NESTING_MAX 50
#define REPEAT_MAX 1000
#define EMITTED_MAX 100000

enum op { OP_CHAR, OP_ANY, OP_CLASS, OP_START, OP_END, OP_SPLIT, OP_JUMP, OP_MATCH };

struct range {
    uint32_t low, high;
};

struct class
{
    struct range *ranges;
    uint32_t count;
    bool negated;
};

struct instruction {
    enum op op;
    uint32_t code;        /* OP_CHAR */
    uint32_t to, else_to; /* OP_JUMP, OP_SPLIT */
    const struct class *class;
};

struct pattern {
    struct instruction *program;
    uint32_t count;
};

enum tree_kind { TREE_EMPTY, TREE_LEAF, TREE_CAT, TREE_ALT, TREE_REPEAT };

struct tree {
    enum tree_kind kind;
    struct instruction leaf;
    struct tree *left, *right;
    int min, max; /* TREE_REPEAT; max -1: no end */
};

struct parser {
    struct str text;
    size_t at;
    unsigned depth;
    struct arena *arena;
    const char *error;
    struct pattern *pattern;
    struct instruction spare; /* where instructions past the limit go */
    uint32_t emitted;         /* trees walked: an empty one repeats without instructions */
};

static struct tree *alternatives_parse(struct parser *p);
static void emit(struct parser *p, const struct tree *tree);

static struct tree *fail(struct parser *p, const char *error)
{
    if (!p->error)
        p->error = error;
    return NULL;
}

static bool more(const struct parser *p)
{
    return p->at < p->text.len && !p->error;
}

static char peek(const struct parser *p)
{
    return p->at < p->text.len ? p->text.ptr[p->at] : '\0';
}

static uint32_t code_point(struct str text, size_t *at)
{
    unsigned char lead = (unsigned char)text.ptr[(*at)++];
    uint32_t code = lead < 0x80   ? lead
                    : lead < 0xE0 ? lead & 0x1F
                    : lead < 0xF0 ? lead & 0x0F
                                  : lead & 0x07;
    while (*at < text.len && ((unsigned char)text.ptr[*at] & 0xC0) == 0x80)
        code = code << 6 | ((unsigned char)text.ptr[(*at)++] & 0x3F);
    return code;
}

static struct tree *tree_new(struct parser *p, enum tree_kind kind, struct tree *left,
                             struct tree *right)
{
    struct tree *tree = arena_new(p->arena, struct tree);
    tree->kind = kind;
    tree->left = left;
    tree->right = right;
    return tree;
}

static struct tree *leaf_new(struct parser *p, enum op op, uint32_t code)
{
    struct tree *tree = tree_new(p, TREE_LEAF, NULL, NULL);
    tree->leaf.op = op;
    tree->leaf.code = code;
    return tree;
}

/* --- classes --- */

static const struct range digits[] = {{'0', '9'}};
static const struct range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct range spaces[] = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

struct class_builder {
    struct range list[512];
    uint32_t count;
};

static void range_add(struct parser *p, struct class_builder *b, uint32_t low, uint32_t high)
{
    if (b->count == ARRAY_LEN(b->list))
        fail(p, "the class has more than 512 ranges");
    else if (low <= high)
        b->list[b->count++] = (struct range){low, high};
}

static bool shorthand_add(struct parser *p, struct class_builder *b, char letter)
{
    const struct range *list;
    size_t count;
    switch (letter | 32) {
    case 'd': list = digits, count = ARRAY_LEN(digits); break;
    case 'w': list = words, count = ARRAY_LEN(words); break;
    case 's': list = spaces, count = ARRAY_LEN(spaces); break;
    default: return false;
    }
    if (letter & 32) {
        for (size_t i = 0; i < count; i++)
            range_add(p, b, list[i].low, list[i].high);
        return true;
    }
    uint32_t next = 0; /* the gaps between the ranges, which are sorted */
    for (size_t i = 0; i < count; i++) {
        if (list[i].low > next)
            range_add(p, b, next, list[i].low - 1);
        next = list[i].high + 1;
    }
    range_add(p, b, next, 0x10FFFF);
    return true;
}

static struct tree *class_tree(struct parser *p, const struct class_builder *b, bool negated)
{
    struct tree *tree = leaf_new(p, OP_CLASS, 0);
    struct class *class = arena_new(p->arena, struct class);
    class->ranges = arena_array(p->arena, struct range, b->count);
    if (b->count)
        memcpy(class->ranges, b->list, b->count * sizeof(*b->list));
    class->count = b->count;
    class->negated = negated;
    tree->leaf.class = class;
    return tree;
}

static bool hex_read(struct parser *p, int digits_wanted, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < digits_wanted; i++, p->at++) {
        char c = peek(p);
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            *out = *out << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
    }
    return true;
}

/* After the backslash, when it is no shorthand class. */
static uint32_t escape_parse(struct parser *p)
{
    static const char names[] = "tnrfv", values[] = "\t\n\r\f\v";
    char c = peek(p);
    uint32_t code = 0;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        p->at++;
        return (unsigned char)values[name - names];
    }
    if (c == 'x' || c == 'u') {
        p->at++;
        if (!hex_read(p, c == 'x' ? 2 : 4, &code))
            fail(p, "an escape needs its hex digits");
        return code;
    }
    if (c == 'b' || c == 'B')
        fail(p, "word boundaries (\\b) are not supported");
    else if (c == 'p' || c == 'P')
        fail(p, "Unicode classes (\\p) are not supported");
    else if ((c >= '1' && c <= '9') || c == 'k')
        fail(p, "back references are not supported");
    else if (!c)
        fail(p, "the pattern ends in a backslash");
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '0')
        fail(p, "an unknown escape");
    if (p->error)
        return 0;
    return code_point(p->text, &p->at);
}

static struct tree *escape_tree(struct parser *p)
{
    struct class_builder b = {.count = 0};
    p->at++;
    if (peek(p) && shorthand_add(p, &b, peek(p))) {
        p->at++;
        return class_tree(p, &b, false);
    }
    return leaf_new(p, OP_CHAR, escape_parse(p));
}

/* One end of a range, or a shorthand class (then false). */
static bool class_char(struct parser *p, struct class_builder *b, uint32_t *code)
{
    if (peek(p) != '\\') {
        *code = code_point(p->text, &p->at);
        return true;
    }
    p->at++;
    if (peek(p) && shorthand_add(p, b, peek(p))) {
        p->at++;
        return false;
    }
    *code = escape_parse(p);
    return true;
}

static struct tree *class_parse(struct parser *p)
{
    struct class_builder b = {.count = 0};
    bool negated = false;
    p->at++;
    if (peek(p) == '^') {
        negated = true;
        p->at++;
    }
    while (more(p) && peek(p) != ']') {
        uint32_t low, high;
        if (!class_char(p, &b, &low))
            continue;
        high = low;
        if (peek(p) == '-' && p->at + 1 < p->text.len && p->text.ptr[p->at + 1] != ']') {
            p->at++;
            if (!class_char(p, &b, &high))
                return fail(p, "a range cannot end in a class");
            if (high < low)
                return fail(p, "a range runs backwards");
        }
        range_add(p, &b, low, high);
    }
    if (peek(p) != ']')
        return fail(p, "a [ is not closed");
    p->at++;
    return class_tree(p, &b, negated);
}

/* --- structure --- */

static struct tree *group_parse(struct parser *p)
{
    p->at++;
    if (peek(p) == '?') {
        if (p->at + 1 < p->text.len && p->text.ptr[p->at + 1] == ':')
            p->at += 2;
        else
            return fail(p, "look-around and named groups are not supported");
    }
    if (++p->depth > NESTING_MAX)
        return fail(p, "the pattern nests too deeply");
    struct tree *tree = alternatives_parse(p);
    p->depth--;
    if (peek(p) != ')')
        return fail(p, "a ( is not closed");
    p->at++;
    return tree;
}

static struct tree *atom_parse(struct parser *p)
{
    switch (peek(p)) {
    case '(': return group_parse(p);
    case '[': return class_parse(p);
    case '\\': return escape_tree(p);
    case '.': p->at++; return leaf_new(p, OP_ANY, 0);
    case '^': p->at++; return leaf_new(p, OP_START, 0);
    case '$': p->at++; return leaf_new(p, OP_END, 0);
    case '*':
    case '+':
    case '?': return fail(p, "a quantifier has nothing to repeat");
    case ']':
    case '{':
    case '}': return fail(p, "a bracket stands alone: write a backslash before it");
    default: return leaf_new(p, OP_CHAR, code_point(p->text, &p->at));
    }
}

static int count_read(struct parser *p)
{
    int value = -1;
    while (peek(p) >= '0' && peek(p) <= '9' && value <= REPEAT_MAX)
        value = MAX(value, 0) * 10 + (p->text.ptr[p->at++] - '0');
    return value;
}

/* {m}, {m,} or {m,n} */
static void counts_parse(struct parser *p, int *min, int *max)
{
    p->at++;
    *min = *max = count_read(p);
    if (peek(p) == ',') {
        p->at++;
        *max = count_read(p);
    }
    if (*min < 0 || peek(p) != '}' || (*max >= 0 && *max < *min))
        fail(p, "a repetition must be {m}, {m,} or {m,n}");
    else if (*min > REPEAT_MAX || *max > REPEAT_MAX)
        fail(p, "a repetition is larger than 1000");
    p->at++;
}

static struct tree *repeat_parse(struct parser *p)
{
    struct tree *tree = atom_parse(p);
    while (more(p) && tree) {
        int min = 0, max = -1;
        char c = peek(p);
        if (c == '{') {
            counts_parse(p, &min, &max);
        } else if (c == '*' || c == '+' || c == '?') {
            min = c == '+';
            max = c == '?' ? 1 : -1;
            p->at++;
        } else {
            break;
        }
        if (peek(p) == '?') /* lazy: the same texts match */
            p->at++;
        else if (peek(p) == '*' || peek(p) == '+' || peek(p) == '{')
            return fail(p, "a quantifier has nothing to repeat");
        tree = tree_new(p, TREE_REPEAT, tree, NULL);
        tree->min = min;
        tree->max = max;
    }
    return tree;
}

static struct tree *sequence_parse(struct parser *p)
{
    struct tree *tree = tree_new(p, TREE_EMPTY, NULL, NULL);
    while (more(p) && peek(p) != '|' && peek(p) != ')') {
        struct tree *next = repeat_parse(p);
        if (!next)
            return NULL;
        tree = tree_new(p, TREE_CAT, tree, next);
    }
    return tree;
}

static struct tree *alternatives_parse(struct parser *p)
{
    struct tree *tree = sequence_parse(p);
    while (more(p) && tree && peek(p) == '|') {
        p->at++;
        struct tree *other = sequence_parse(p);
        if (!other)
            return NULL;
        tree = tree_new(p, TREE_ALT, tree, other);
    }
    return tree;
}

/* --- the program --- */

static struct instruction *instruction_add(struct parser *p, enum op op)
{
    struct pattern *pattern = p->pattern;
    if (pattern->count == PATTERN_INSTRUCTIONS_MAX) {
        fail(p, "the pattern is too large");
        return &p->spare;
    }
    struct instruction *made = &pattern->program[pattern->count++];
    made->op = op;
    return made;
}

static void repeat_emit(struct parser *p, const struct tree *tree)
{
    struct pattern *pattern = p->pattern;
    for (int i = 0; i < tree->min && !p->error; i++)
        emit(p, tree->left);
    if (tree->max < 0) {
        uint32_t split = pattern->count;
        instruction_add(p, OP_SPLIT)->to = split + 1;
        emit(p, tree->left);
        instruction_add(p, OP_JUMP)->to = split;
        if (!p->error)
            pattern->program[split].else_to = pattern->count;
        return;
    }
    for (int i = tree->min; i < tree->max && !p->error; i++) {
        uint32_t split = pattern->count;
        instruction_add(p, OP_SPLIT)->to = split + 1;
        emit(p, tree->left);
        if (!p->error)
            pattern->program[split].else_to = pattern->count;
    }
}

static void emit(struct parser *p, const struct tree *tree)
{
    struct pattern *pattern = p->pattern;
    if (++p->emitted > EMITTED_MAX)
        fail(p, "the pattern is too large");
    if (p->error)
        return;
    switch (tree->kind) {
    case TREE_EMPTY: break;
    case TREE_LEAF: *instruction_add(p, tree->leaf.op) = tree->leaf; break;
    case TREE_CAT:
        emit(p, tree->left);
        emit(p, tree->right);
        break;
    case TREE_ALT: {
        uint32_t split = pattern->count;
        instruction_add(p, OP_SPLIT)->to = split + 1;
        emit(p, tree->left);
        uint32_t jump = pattern->count;
        instruction_add(p, OP_JUMP);
        if (!p->error)
            pattern->program[split].else_to = pattern->count;
        emit(p, tree->right);
        if (!p->error)
            pattern->program[jump].to = pattern->count;
        break;
    }
    case TREE_REPEAT: repeat_emit(p, tree); break;
    }
}

const struct pattern *pattern_compile(struct str text, struct arena *arena, const char **error,
                                      size_t *at)
{
    struct arena scratch = {0};
    struct pattern building = {0};
    struct parser p = {.text = text, .arena = arena, .pattern = &building};
    if (text.len > PATTERN_INSTRUCTIONS_MAX) {
        *error = "the pattern is too large";
        *at = 0;
        return NULL;
    }
    building.program = arena_array(&scratch, struct instruction, PATTERN_INSTRUCTIONS_MAX);
    struct tree *tree = alternatives_parse(&p);
    if (!p.error && p.at < text.len)
        fail(&p, "a ) has no ( before it");
    if (tree)
        emit(&p, tree);
    if (!p.error)
        instruction_add(&p, OP_MATCH);
    struct pattern *pattern = NULL;
    if (!p.error) {
        pattern = arena_new(arena, struct pattern);
        pattern->program = arena_array(arena, struct instruction, building.count);
        memcpy(pattern->program, building.program, building.count * sizeof(*pattern->program));
        pattern->count = building.count;
    }
    *error = p.error;
    *at = MIN(p.at, text.len);
    arena_free(&scratch);
    return pattern;
}

/* --- matching --- */

struct threads {
    uint32_t *list; /* program counters that wait for a character */
    uint32_t count;
};

struct match {
    const struct pattern *pattern;
    struct str text;
    size_t *seen; /* per instruction: the position at which it was added last, plus 1 */
    uint32_t *stack;
    bool matched;
};

static bool class_has(const struct class *class, uint32_t code)
{
    for (uint32_t i = 0; i < class->count; i++)
        if (code >= class->ranges[i].low && code <= class->ranges[i].high)
            return !class->negated;
    return class->negated;
}

static bool is_newline(uint32_t code)
{
    return code == '\n' || code == '\r' || code == 0x2028 || code == 0x2029;
}

static void threads_add(struct match *m, struct threads *threads, uint32_t start, size_t at)
{
    uint32_t depth = 0;
    m->stack[depth++] = start;
    while (depth) {
        uint32_t pc = m->stack[--depth];
        const struct instruction *now = &m->pattern->program[pc];
        if (m->seen[pc] == at + 1)
            continue;
        m->seen[pc] = at + 1;
        switch (now->op) {
        case OP_JUMP: m->stack[depth++] = now->to; break;
        case OP_SPLIT:
            m->stack[depth++] = now->else_to;
            m->stack[depth++] = now->to;
            break;
        case OP_START:
            if (at == 0)
                m->stack[depth++] = pc + 1;
            break;
        case OP_END:
            if (at == m->text.len)
                m->stack[depth++] = pc + 1;
            break;
        case OP_MATCH: m->matched = true; break;
        case OP_CHAR:
        case OP_ANY:
        case OP_CLASS: threads->list[threads->count++] = pc; break;
        }
    }
}

uint32_t pattern_size(const struct pattern *pattern)
{
    return pattern->count;
}

bool pattern_match(const struct pattern *pattern, struct str text, struct arena *scratch)
{
    struct match m = {.pattern = pattern, .text = text};
    struct threads now = {0}, next = {0};
    m.seen = arena_array(scratch, size_t, pattern->count);
    m.stack = arena_array(scratch, uint32_t, pattern->count * 2 + 2);
    now.list = arena_array(scratch, uint32_t, pattern->count);
    next.list = arena_array(scratch, uint32_t, pattern->count);
    for (size_t at = 0;;) {
        threads_add(&m, &now, 0, at); /* unanchored: a match may start at every place */
        if (m.matched || at >= text.len)
            return m.matched;
        uint32_t code = code_point(text, &at);
        for (uint32_t i = 0; i < now.count; i++) {
            const struct instruction *step = &pattern->program[now.list[i]];
            bool fits = step->op == OP_CHAR    ? step->code == code
                        : step->op == OP_CLASS ? class_has(step->class, code)
                                               : !is_newline(code);
            if (fits)
                threads_add(&m, &next, now.list[i] + 1, at);
        }
        struct threads spare = now;
        now = next;
        next = spare;
        next.count = 0;
    }
}
