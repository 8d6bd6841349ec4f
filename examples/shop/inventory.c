/*
 * inventory: holds stock for an order and lets it go again.
 *
 *   POST   /reservations {sku, order}   201, the hold
 *   GET    /reservations/ORDER          200, or 404 when nothing is held
 *   DELETE /reservations/ORDER          200, or 404 when nothing is held
 */
#include "examples/shop/service.h"

/* The newest effect on an order: a reservation that is not released, or NULL. */
static const struct effect *held(const struct call *call, struct str order)
{
    const struct effect *newest = effects_by_subject(call->effects, order);
    return newest && str_eq_z(newest->kind, "reservation") ? newest : NULL;
}

static void reserve(const struct call *call, struct answer *answer)
{
    struct str sku = json_get_text(call->body, "sku");
    struct str order = json_get_text(call->body, "order");
    if (!sku.len || !order.len) {
        service_refuse(call, answer, 422, "invalid_reservation", "sku and order are needed");
        return;
    }
    struct json *body = json_object_new(call->arena, 3);
    json_object_add_z(body, "id", json_string(call->arena, service_id(call, "res")));
    json_object_add_z(body, "sku", json_string(call->arena, sku));
    json_object_add_z(body, "order", json_string(call->arena, order));
    *answer = (struct answer){201, body, "reservation", order};
}

static void release(const struct call *call, struct str order, struct answer *answer)
{
    if (!held(call, order)) {
        service_refuse(call, answer, 404, "no_reservation", "nothing is held for this order");
        return;
    }
    struct json *body = json_object_new(call->arena, 1);
    json_object_add_z(body, "released", json_string(call->arena, order));
    *answer = (struct answer){200, body, "release", order};
}

static void handle(const struct call *call, struct answer *answer)
{
    struct str prefix = STR("/reservations/");
    struct str order = STR_NONE;
    if (str_starts(call->path, prefix))
        order = (struct str){call->path.ptr + prefix.len, call->path.len - prefix.len};
    bool post = strcmp(call->method, "POST") == 0;

    if (post && str_eq_z(call->path, "/reservations"))
        reserve(call, answer);
    else if (order.len && strcmp(call->method, "DELETE") == 0)
        release(call, order, answer);
    else if (order.len && strcmp(call->method, "GET") == 0 && held(call, order))
        *answer = (struct answer){.status = 200, .body = held(call, order)->answer};
    else
        service_refuse(call, answer, 404, "not_found", "there is no such thing");
}

int main(int argc, char **argv)
{
    return service_main(&(struct service){"inventory", 7001, handle}, argc, argv);
}
