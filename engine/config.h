/*
 * config.h: sagad.yaml: the daemon's own settings, read by the loader of the workflows and with the
 * same diagnostics.
 *
 *     database: postgres://...          name: sagad-1            socket: /run/sagad/sagad.sock
 *     log_format: human|logfmt|json     drain: 30s        lease: 10s
 *     sessions: 4
 *     retain: 30d                 # of finished runs whose workflow has no `retain`; else for ever
 *     services: {payments: {url: "https://...", timeout: 5s}}    # wins over a workflow's own words
 *     secrets: {payments_token: "file:/etc/saga/token"}          # or env:NAME
 *     env: [REGION]                                              # what `env.NAME` may read
 *     exec: {directory: /usr/local/lib/saga}                     # off without it
 *     egress: {allow: [10.0.0.0/8], deny: [10.0.13.0/24]}        # engine/egress.h
 *     roles: {operate: [group:ops], submit: [uid:1001],          # engine/access.h
 *             read: [{who: group:acme, tenants: [acme]}]}
 */
#ifndef ENGINE_CONFIG_H
#define ENGINE_CONFIG_H

#include "dsl/services.h"
#include "engine/access.h"
#include "engine/alerts.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/egress.h"
#include "engine/log.h"

struct config_pair {
    const char *name, *value;
};

struct config {
    struct arena arena;
    const char *database, *name, *socket; /* NULL: not set */
    bool has_log_format;
    enum log_format log_format;
    int64_t drain_us, lease_us;
    unsigned sessions; /* at the engine's database */
    int64_t retain_us; /* of runs whose workflow does not say; 0: for ever */
    const struct plan_service *services;
    const struct config_pair *secrets; /* name and source */
    const char *const *env_names;
    const struct alert_target *alerts;
    const struct tenant_limit *tenants;
    uint16_t services_count, secrets_count, env_count, alerts_count, tenants_count;
    const char *exec_directory;
    const struct json *people; /* as engine/approval.h reads it; NULL: nobody is named */
    struct egress egress;
    struct access access;
};

#define CONFIG_DRAIN_US (30 * SECOND_US)
#define CONFIG_LEASE_US (10 * SECOND_US)
#define CONFIG_SESSIONS 4

/* Defaults without a file. */
void config_init(struct config *config);
void config_free(struct config *config);
/* False if there were errors (in `diags`). */
bool config_parse(struct str source, struct config *config, struct diags *diags);
/* Reads a whole file of at most 1 MiB into the arena. Errors: ERR_NOT_FOUND, ERR_IO, ERR_LIMIT. */
MUST_USE int config_file_read(const char *path, struct arena *arena, struct str *out,
                              struct err *err);
/* {"human": ...}: false if it is no format. */
bool config_log_format(struct str text, enum log_format *out);
/* Shorter ones are lost by a busy machine, with longer ones nobody takes over while it matters. */
bool config_lease_ok(int64_t lease_us);
/* 2 to 4: false if it is not. */
bool config_sessions(struct str text, unsigned *out);

#endif
