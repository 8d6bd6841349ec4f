/*
 * payments: takes money and gives it back.
 *
 *   POST /charges {amount_cents}   201, the charge
 *   GET  /charges?key=K            200 {data: [...]}: the charges made under a key, newest first
 *   POST /refunds {charge}         201, the refund; 409 when it was refunded before
 */
#include "examples/shop/service.h"

static void charge(const struct call *call, struct answer *answer)
{
    int64_t amount;
    if (!json_to_int(json_get_z(call->body, "amount_cents"), &amount) || amount <= 0) {
        service_refuse(call, answer, 422, "invalid_amount",
                       "amount_cents must be a positive integer");
        return;
    }
    struct str id = service_id(call, "ch");
    struct json *body = json_object_new(call->arena, 3);
    json_object_add_z(body, "id", json_string(call->arena, id));
    json_object_add_z(body, "amount_cents", json_int(call->arena, amount));
    json_object_add_z(body, "status", json_string_z(call->arena, "succeeded"));
    *answer = (struct answer){201, body, "charge", id};
}

static void refund(const struct call *call, struct answer *answer)
{
    struct str id = json_get_text(call->body, "charge");
    const struct effect *newest = effects_by_subject(call->effects, id);
    if (!newest) {
        service_refuse(call, answer, 404, "no_such_charge", "there is no such charge");
        return;
    }
    if (!str_eq_z(newest->kind, "charge")) {
        service_refuse(call, answer, 409, "charge_already_refunded", "it was refunded before");
        return;
    }
    struct json *body = json_object_new(call->arena, 3);
    json_object_add_z(body, "id", json_string(call->arena, service_id(call, "re")));
    json_object_add_z(body, "charge", json_string(call->arena, id));
    json_object_add_z(body, "amount_cents", json_get_z(newest->answer, "amount_cents"));
    *answer = (struct answer){201, body, "refund", id};
}

static void charges_of_key(const struct call *call, struct answer *answer)
{
    const struct effect *newest = effects_by_key(call->effects, call->query_key);
    uint32_t count = 0;
    for (const struct effect *effect = newest; effect; effect = effect->earlier)
        count++;
    struct json *data = json_list_new(call->arena, count);
    for (const struct effect *effect = newest; effect; effect = effect->earlier)
        if (str_eq_z(effect->kind, "charge"))
            json_list_add(data, effect->answer);
    struct json *body = json_object_new(call->arena, 1);
    json_object_add_z(body, "data", data);
    *answer = (struct answer){.status = 200, .body = body};
}

static void handle(const struct call *call, struct answer *answer)
{
    bool post = strcmp(call->method, "POST") == 0;
    bool get = strcmp(call->method, "GET") == 0;

    if (post && str_eq_z(call->path, "/charges"))
        charge(call, answer);
    else if (post && str_eq_z(call->path, "/refunds"))
        refund(call, answer);
    else if (get && str_eq_z(call->path, "/charges") && call->query_key.len)
        charges_of_key(call, answer);
    else
        service_refuse(call, answer, 404, "not_found", "there is no such thing");
}

int main(int argc, char **argv)
{
    return service_main(&(struct service){"payments", 7002, handle}, argc, argv);
}
