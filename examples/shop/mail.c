/*
 * mail: sends messages (into its ledger).
 *
 *   POST /messages {to, template}   201; 422 when `to` is no address
 */
#include "examples/shop/service.h"

static void handle(const struct call *call, struct answer *answer)
{
    if (strcmp(call->method, "POST") != 0 || !str_eq_z(call->path, "/messages")) {
        service_refuse(call, answer, 404, "not_found", "there is no such thing");
        return;
    }
    struct str to = json_get_text(call->body, "to");
    struct str template = json_get_text(call->body, "template");
    if (!to.len || !memchr(to.ptr, '@', to.len)) {
        service_refuse(call, answer, 422, "invalid_recipient", "there is no such mailbox");
        return;
    }
    if (!template.len) {
        service_refuse(call, answer, 422, "invalid_message", "template is needed");
        return;
    }
    struct json *body = json_object_new(call->arena, 3);
    json_object_add_z(body, "id", json_string(call->arena, service_id(call, "msg")));
    json_object_add_z(body, "to", json_string(call->arena, to));
    json_object_add_z(body, "template", json_string(call->arena, template));
    struct str subject =
        arena_printf(call->arena, STR_FMT " to " STR_FMT, STR_ARG(template), STR_ARG(to));
    *answer = (struct answer){201, body, "message", subject};
}

int main(int argc, char **argv)
{
    return service_main(&(struct service){"mail", 7003, handle}, argc, argv);
}
