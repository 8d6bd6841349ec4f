#include "dsl/doc.h"

#include "dsl/doc_scalar.h"

#include <stdlib.h>
#include <yaml.h>

#define SAMPLE_EVERY 256

struct anchor {
    struct str name;
    const struct node *node; /* NULL while it is open */
    uint32_t start;
};

struct loader {
    struct doc *doc;
    struct diags *diags;
    yaml_parser_t parser;
    yaml_event_t event;
    struct anchor *anchors;
    uint32_t anchors_count;
    /* What the open collections hold so far, the innermost's last. */
    struct pair *parts;
    uint32_t parts_count, parts_capacity;
    uint32_t nodes, nodes_max;
    unsigned depth;
    bool stopped; /* a syntax error or a limit: diagnosed, the tree is incomplete */
};

static const struct node *node_load(struct loader *l);

/* --- places --- */

static bool begins_point(char c)
{
    return ((unsigned char)c & 0xC0) != 0x80;
}

static void lines_index(struct doc *doc)
{
    struct str source = doc->source;
    const char *end = source.ptr + source.len, *at;
    uint32_t count = 1, points = 0;
    for (at = source.ptr; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    doc->lines = arena_array(&doc->arena, uint32_t, count);
    doc->lines_count = 1;
    for (at = source.ptr; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        doc->lines[doc->lines_count++] = (uint32_t)(at - source.ptr + 1);
    if (str_ascii_len(source) == source.len)
        return;
    doc->samples = arena_array(&doc->arena, uint32_t, source.len / SAMPLE_EVERY + 1);
    for (size_t i = 0; i < source.len; i++)
        if (begins_point(source.ptr[i]) && points++ % SAMPLE_EVERY == 0)
            doc->samples[doc->samples_count++] = (uint32_t)i;
}

/* libyaml counts code points. */
static uint32_t byte_of(const struct doc *doc, const yaml_mark_t *mark)
{
    size_t points = mark->index;
    if (!doc->samples)
        return (uint32_t)MIN(points, doc->source.len);
    if (points / SAMPLE_EVERY >= doc->samples_count)
        return (uint32_t)doc->source.len;
    size_t at = doc->samples[points / SAMPLE_EVERY];
    points %= SAMPLE_EVERY;
    for (; at < doc->source.len && points; points--) {
        at++;
        while (at < doc->source.len && !begins_point(doc->source.ptr[at]))
            at++;
    }
    return (uint32_t)at;
}

/* The last of the ascending `offsets` that is not above `at`; the first one never is. */
static uint32_t offset_find(const uint32_t *offsets, uint32_t count, uint32_t at)
{
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (offsets[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Code points before byte `at`. */
static uint32_t points_before(const struct doc *doc, uint32_t at)
{
    if (!doc->samples_count)
        return at;
    uint32_t sample = offset_find(doc->samples, doc->samples_count, at);
    uint32_t points = sample * SAMPLE_EVERY;
    for (uint32_t i = doc->samples[sample]; i < at; i++)
        points += begins_point(doc->source.ptr[i]);
    return points;
}

static uint32_t points_between(const struct doc *doc, uint32_t start, uint32_t end)
{
    uint32_t len = (uint32_t)doc->source.len;
    start = MIN(start, len);
    end = MIN(end, len);
    return end > start ? points_before(doc, end) - points_before(doc, start) : 0;
}

uint32_t doc_line(const struct doc *doc, uint32_t at)
{
    return offset_find(doc->lines, doc->lines_count, at) + 1;
}

struct place doc_place(const struct doc *doc, uint32_t start, uint32_t end)
{
    uint32_t line = doc_line(doc, start), line_start = doc->lines[line - 1];
    uint32_t line_end = line < doc->lines_count ? doc->lines[line] - 1 : (uint32_t)doc->source.len;
    while (line_end > line_start && strchr(" \t\r", doc->source.ptr[line_end - 1]))
        line_end--;
    uint32_t span = points_between(doc, start, MIN(end, line_end));
    return (struct place){
        .line = line,
        .column = points_between(doc, line_start, start) + 1,
        .span = MAX(span, 1u),
    };
}

struct place doc_node_place(const struct doc *doc, const struct node *node)
{
    return doc_place(doc, node->start, node->end);
}

static struct place mark_place(const struct doc *doc, const yaml_mark_t *mark)
{
    uint32_t at = byte_of(doc, mark);
    return doc_place(doc, at, at + 1);
}

/* --- errors of the YAML itself --- */

static struct str place_line(const struct doc *doc, uint32_t line)
{
    uint32_t start = doc->lines[line - 1];
    uint32_t end = line < doc->lines_count ? doc->lines[line] - 1 : (uint32_t)doc->source.len;
    return (struct str){doc->source.ptr + start, end - start};
}

static void syntax_error(struct loader *l)
{
    yaml_parser_t *parser = &l->parser;
    struct place place = {0}, context = {0};
    l->stopped = true;
    if (parser->error == YAML_READER_ERROR) {
        uint32_t at = (uint32_t)MIN(parser->problem_offset, l->doc->source.len);
        place = doc_place(l->doc, at, at + 1);
        diag_add(l->diags, DIAG_ERROR, "E001", place.line, place.column, 1,
                 "this character is not allowed in a YAML file");
        return;
    }
    place = mark_place(l->doc, &parser->problem_mark);
    struct diag *diag =
        diag_add(l->diags, DIAG_ERROR, "E002", place.line, place.column, place.span,
                 "the YAML cannot be read: %s%s%s", parser->context ? parser->context : "",
                 parser->context ? ", " : "", parser->problem ? parser->problem : "");
    context = parser->context ? mark_place(l->doc, &parser->context_mark) : place;
    if (byte_of(l->doc, &parser->problem_mark) >= l->doc->source.len) {
        /* Something is not closed: where it opens says more than the end of the file. */
        diag->line = context.line;
        diag->column = context.column;
        place = context;
    }
    uint32_t first = MAX(MIN(context.line, place.line), place.line > 3 ? place.line - 3 : 1);
    for (uint32_t line = place.line; line >= first; line--) {
        const char *help = scalar_syntax_help(place_line(l->doc, line));
        if (help) {
            diag_help(l->diags, diag, "%s", help);
            break;
        }
    }
}

static bool event_next(struct loader *l)
{
    yaml_event_delete(&l->event);
    if (l->stopped)
        return false;
    if (!yaml_parser_parse(&l->parser, &l->event)) {
        syntax_error(l);
        return false;
    }
    return true;
}

static void limit_error(struct loader *l, const char *what)
{
    struct place place = mark_place(l->doc, &l->event.start_mark);
    diag_add(l->diags, DIAG_ERROR, "E009", place.line, place.column, 1, "%s", what);
    l->stopped = true;
}

/* --- nodes --- */

static bool nodes_count(struct loader *l, uint32_t weight, uint32_t height)
{
    if (l->depth + height > DOC_DEPTH_MAX) {
        limit_error(l, "the file nests deeper than 64 levels");
        return false;
    }
    if (weight > l->nodes_max - l->nodes) {
        limit_error(l, "the file has more than 20,000 values with its aliases written out");
        return false;
    }
    l->nodes += weight;
    return true;
}

/* True if there is a tag: it is diagnosed. */
static bool tag_error(struct loader *l, const char *tag)
{
    if (!tag)
        return false;
    struct place place = mark_place(l->doc, &l->event.start_mark);
    place.span = (uint32_t)MIN(strlen(tag), (size_t)60);
    struct diag *diag = diag_add(l->diags, DIAG_ERROR, "E004", place.line, place.column, place.span,
                                 "YAML tags are not used here: `%.60s`", tag);
    if (tag[0] == '!' && tag[1] != '!')
        diag_help(l->diags, diag,
                  "an expression that starts with `!` must be quoted, as in `if: \"!%.60s\"`",
                  tag + 1);
    else
        diag_help(l->diags, diag, "remove the tag; quote the value if it has to be text");
    return true;
}

static struct anchor *anchor_open(struct loader *l, const yaml_char_t *name)
{
    if (!name)
        return NULL;
    if (l->anchors_count == DOC_ANCHORS_MAX) {
        limit_error(l, "the file has more than 1,000 anchors");
        return NULL;
    }
    struct anchor *anchor = &l->anchors[l->anchors_count++];
    anchor->name = arena_str(&l->doc->arena, str_z((const char *)name));
    anchor->node = NULL;
    anchor->start = byte_of(l->doc, &l->event.start_mark);
    return anchor;
}

static const struct node *alias_load(struct loader *l)
{
    static const struct node nothing = {.kind = NODE_NONE, .weight = 1, .text = {"", 0}};
    struct str name = str_z((const char *)l->event.data.alias.anchor);
    const struct anchor *anchor = NULL;
    for (uint32_t i = l->anchors_count; i-- > 0 && !anchor;)
        if (str_eq(l->anchors[i].name, name))
            anchor = &l->anchors[i];
    if (anchor && anchor->node)
        return nodes_count(l, anchor->node->weight, anchor->node->height) ? anchor->node : NULL;
    struct place place = mark_place(l->doc, &l->event.start_mark);
    diag_add(l->diags, DIAG_ERROR, "E008", place.line, place.column, (uint32_t)name.len + 1,
             anchor ? "the alias `*%s` stands inside its own anchor"
                    : "the alias `*%s` has no anchor before it",
             name.ptr);
    return &nothing;
}

static struct node *node_new(struct loader *l, enum node_kind kind)
{
    struct node *node = arena_new(&l->doc->arena, struct node);
    node->kind = kind;
    node->weight = 1;
    node->start = byte_of(l->doc, &l->event.start_mark);
    node->end = node->start + 1;
    node->text = STR("");
    return node;
}

static void scalars_add(struct doc *doc, struct node *node)
{
    if (doc->scalars_count == doc->scalars_capacity) {
        doc->scalars_capacity = doc->scalars_capacity ? doc->scalars_capacity * 2 : 256;
        doc->scalars = xrealloc(doc->scalars, doc->scalars_capacity * sizeof(*doc->scalars));
    }
    doc->scalars[doc->scalars_count++] = node;
}

static const struct node *scalar_load(struct loader *l)
{
    static const enum node_style styles[] = {
        [YAML_PLAIN_SCALAR_STYLE] = NODE_PLAIN,
        [YAML_SINGLE_QUOTED_SCALAR_STYLE] = NODE_SINGLE,
        [YAML_DOUBLE_QUOTED_SCALAR_STYLE] = NODE_DOUBLE,
        [YAML_LITERAL_SCALAR_STYLE] = NODE_LITERAL,
        [YAML_FOLDED_SCALAR_STYLE] = NODE_FOLDED,
    };
    if (!nodes_count(l, 1, 0))
        return NULL;
    struct anchor *anchor = anchor_open(l, l->event.data.scalar.anchor);
    bool tagged = tag_error(l, (const char *)l->event.data.scalar.tag);
    struct node *node = node_new(l, tagged ? NODE_NONE : NODE_TEXT);
    node->end = byte_of(l->doc, &l->event.end_mark);
    node->style = styles[l->event.data.scalar.style];
    node->text = arena_str(&l->doc->arena, (struct str){(const char *)l->event.data.scalar.value,
                                                        l->event.data.scalar.length});
    if (memchr(node->text.ptr, 0, node->text.len)) {
        struct place place = doc_node_place(l->doc, node);
        diag_add(l->diags, DIAG_ERROR, "E001", place.line, place.column, place.span,
                 "a NUL character cannot be stored");
    }
    scalars_add(l->doc, node);
    if (anchor)
        anchor->node = node;
    return node;
}

static void parts_add(struct loader *l, const struct node *key, const struct node *value)
{
    if (l->parts_count == l->parts_capacity) {
        l->parts_capacity = l->parts_capacity ? l->parts_capacity * 2 : 256;
        l->parts = xrealloc(l->parts, l->parts_capacity * sizeof(*l->parts));
    }
    l->parts[l->parts_count++] = (struct pair){key, value};
}

static void node_grow(struct node *node, const struct node *part)
{
    node->weight += part->weight;
    node->height = MAX(node->height, part->height + 1);
}

static const struct node *list_load(struct loader *l)
{
    uint32_t first = l->parts_count;
    if (!nodes_count(l, 1, 1))
        return NULL;
    struct anchor *anchor = anchor_open(l, l->event.data.sequence_start.anchor);
    tag_error(l, (const char *)l->event.data.sequence_start.tag);
    struct node *node = node_new(l, NODE_LIST);
    node->flow = l->event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    l->depth++;
    while (event_next(l) && l->event.type != YAML_SEQUENCE_END_EVENT) {
        const struct node *item = node_load(l);
        if (!item)
            break;
        scalar_resolve_value(l->doc, l->diags, item);
        parts_add(l, NULL, item);
        node_grow(node, item);
    }
    l->depth--;
    node->count = l->parts_count - first;
    node->items =
        (const struct node **)arena_alloc_array(&l->doc->arena, node->count, sizeof(*node->items));
    for (uint32_t i = 0; i < node->count; i++)
        node->items[i] = l->parts[first + i].value;
    l->parts_count = first;
    if (anchor)
        anchor->node = node;
    if (l->stopped)
        return NULL;
    list_check(l->doc, l->diags, node);
    return node;
}

static const struct node *map_load(struct loader *l)
{
    uint32_t first = l->parts_count;
    if (!nodes_count(l, 1, 1))
        return NULL;
    struct anchor *anchor = anchor_open(l, l->event.data.mapping_start.anchor);
    tag_error(l, (const char *)l->event.data.mapping_start.tag);
    struct node *node = node_new(l, NODE_MAP);
    node->flow = l->event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
    l->depth++;
    while (event_next(l) && l->event.type != YAML_MAPPING_END_EVENT) {
        const struct node *key = node_load(l), *value = NULL;
        if (key) /* a key is no value: it does not count */
            l->nodes -= key->weight;
        if (key && event_next(l))
            value = node_load(l);
        if (!value)
            break;
        node_grow(node, value);
        scalar_resolve_value(l->doc, l->diags, value);
        if (scalar_check_key(l->doc, l->diags, key))
            parts_add(l, key, value);
    }
    l->depth--;
    node->count = l->parts_count - first;
    node->pairs = arena_array(&l->doc->arena, struct pair, node->count);
    if (node->count)
        memcpy(node->pairs, l->parts + first, node->count * sizeof(*node->pairs));
    l->parts_count = first;
    if (node->count && !node->flow)
        node->end = node->pairs[0].key->end;
    if (anchor)
        anchor->node = node;
    if (l->stopped)
        return NULL;
    map_check(l->doc, l->diags, node);
    return node;
}

/* The event is the node's first one; afterwards it is its last. NULL: stopped. */
static const struct node *node_load(struct loader *l)
{
    switch (l->event.type) {
    case YAML_ALIAS_EVENT: return alias_load(l);
    case YAML_SCALAR_EVENT: return scalar_load(l);
    case YAML_SEQUENCE_START_EVENT: return list_load(l);
    case YAML_MAPPING_START_EVENT: return map_load(l);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: break;
    }
    return NULL;
}

/* --- the stream --- */

static void version_check(struct loader *l)
{
    const yaml_version_directive_t *version = l->event.data.document_start.version_directive;
    if (!version || (version->major == 1 && version->minor == 2))
        return;
    diag_add(l->diags, DIAG_ERROR, "E014", 1, 1, 1,
             "the file declares YAML %d.%d, but workflows are read by the rules of YAML 1.2",
             version->major, version->minor);
}

static void stream_load(struct loader *l)
{
    struct doc *doc = l->doc;
    if (!event_next(l) || !event_next(l)) /* stream start, first document */
        return;
    if (l->event.type == YAML_STREAM_END_EVENT) {
        diag_add(l->diags, DIAG_ERROR, "E011", 0, 0, 0, "the file is empty");
        return;
    }
    struct place first = mark_place(doc, &l->event.start_mark);
    version_check(l);
    if (!event_next(l))
        return;
    const struct node *root = node_load(l);
    if (!root)
        return;
    scalar_resolve_value(doc, l->diags, root);
    if (!event_next(l) || !event_next(l)) /* document end, stream end */
        return;
    if (l->event.type == YAML_DOCUMENT_START_EVENT) {
        struct place second = mark_place(doc, &l->event.start_mark);
        struct diag *diag =
            diag_add(l->diags, DIAG_ERROR, "E006", second.line, second.column, 3,
                     "a second document starts here, but a file holds one workflow");
        diag->other_line = first.line;
        diag->other_column = first.column;
        return;
    }
    doc->root = root;
}

/* The first byte that is no UTF-8; `source` has one. */
static uint32_t utf8_error_find(struct str source)
{
    size_t at = 0;
    while (at < source.len) {
        size_t next = at + 1;
        while (next < source.len && ((unsigned char)source.ptr[next] & 0xC0) == 0x80)
            next++;
        if (!str_is_utf8((struct str){source.ptr + at, next - at}))
            break;
        at = next;
    }
    return (uint32_t)at;
}

/* Characters that end a line for some YAML tools and not for others: NEL, LS, PS and a lone CR. */
static bool doubtful_break_find(const struct doc *doc, uint32_t *at)
{
    static const char *const breaks[] = {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"};
    struct str source = doc->source;
    const char *end = source.ptr + source.len, *found = source.ptr;
    while ((found = memchr(found, '\r', (size_t)(end - found))) && found + 1 < end &&
           found[1] == '\n')
        found++;
    for (size_t i = 0; !found && doc->samples && i < ARRAY_LEN(breaks); i++)
        found = memmem(source.ptr, source.len, breaks[i], strlen(breaks[i]));
    if (found)
        *at = (uint32_t)(found - source.ptr);
    return found != NULL;
}

static bool source_check(struct doc *doc, size_t bytes_max, struct diags *diags)
{
    uint32_t at;
    if (doc->source.len > bytes_max) {
        diag_add(diags, DIAG_ERROR, "E009", 0, 0, 0, "the file is larger than %zu KiB",
                 bytes_max / 1024);
        return false;
    }
    lines_index(doc);
    if (!str_is_utf8(doc->source)) {
        at = utf8_error_find(doc->source);
        struct place place = doc_place(doc, at, at + 1);
        diag_add(diags, DIAG_ERROR, "E001", place.line, place.column, 1,
                 "the file is not UTF-8 here");
        return false;
    }
    if (doubtful_break_find(doc, &at)) {
        struct place place = doc_place(doc, at, at + 1);
        struct diag *diag = diag_add(diags, DIAG_ERROR, "E001", place.line, place.column, 1,
                                     "this character ends a line for some YAML tools only");
        diag_help(diags, diag, "end lines with LF or CRLF; inside quotes write \"\\u2028\"");
        return false;
    }
    return true;
}

void doc_load(struct doc *doc, struct str source, size_t bytes_max, uint32_t nodes_max,
              struct diags *diags)
{
    struct loader l = {.doc = doc, .diags = diags, .nodes_max = nodes_max};
    *doc = (struct doc){.source = source.ptr ? source : STR("")};
    if (str_starts(doc->source, STR("\xEF\xBB\xBF"))) {
        doc->source.ptr += 3;
        doc->source.len -= 3;
    }
    if (!source_check(doc, bytes_max, diags))
        return;
    if (!yaml_parser_initialize(&l.parser))
        abort(); /* out of memory */
    yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)doc->source.ptr,
                                 doc->source.len);
    l.anchors = xcalloc(DOC_ANCHORS_MAX, sizeof(*l.anchors));
    stream_load(&l);
    free(l.anchors);
    free(l.parts);
    yaml_event_delete(&l.event);
    yaml_parser_delete(&l.parser);
    if (doc->root)
        comments_check(doc, diags);
    free(doc->scalars);
    doc->scalars = NULL;
}

void doc_free(struct doc *doc)
{
    arena_free(&doc->arena);
    *doc = (struct doc){0};
}

/* --- reading --- */

const struct pair *node_find(const struct node *map, struct str key)
{
    if (!map || map->kind != NODE_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->count; i++)
        if (str_eq(map->pairs[i].key->text, key))
            return &map->pairs[i];
    return NULL;
}

const struct json *node_json(const struct node *node, struct arena *arena)
{
    struct json *value;
    switch (node->kind) {
    case NODE_NONE:
    case NODE_NULL: return &json_null;
    case NODE_BOOL: return json_bool(node->boolean);
    case NODE_NUMBER: return json_number(arena, arena_str(arena, node->text));
    case NODE_TEXT: return json_string(arena, arena_str(arena, node->text));
    case NODE_LIST:
        value = json_list_new(arena, node->count);
        for (uint32_t i = 0; i < node->count; i++)
            json_list_add(value, node_json(node->items[i], arena));
        return value;
    case NODE_MAP:
        value = json_object_new(arena, node->count);
        for (uint32_t i = 0; i < node->count; i++)
            json_object_add(value, arena_str(arena, node->pairs[i].key->text),
                            node_json(node->pairs[i].value, arena));
        return value;
    }
    return &json_null;
}

const char *node_kind_name(const struct node *node)
{
    switch (node->kind) {
    case NODE_NONE: return "a wrong value";
    case NODE_NULL: return node->text.len ? "null" : "nothing";
    case NODE_BOOL: return "a boolean";
    case NODE_NUMBER: return "a number";
    case NODE_TEXT: return "text";
    case NODE_LIST: return "a list";
    case NODE_MAP: return "a map";
    }
    return "nothing";
}
