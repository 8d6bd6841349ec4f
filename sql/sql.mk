# Puts the SQL files into the binary: build/sql/bundle.c holds each file as one string, in the
# order in which they are run. Nothing but awk is needed.

SQL_MIGRATIONS := $(sort $(wildcard sql/migrations/*.sql))
# Functions that views call, then the views in the order of their dependencies, then the rest.
SQL_FIRST      := $(addprefix sql/api/,shard_of.sql key_of.sql time_text.sql error_text.sql audit_hash_v1.sql \
                    starts_from_v1.sql effects_from_v1.sql runs_from_v1.sql schedule_open_v1.sql \
                    retire_due_v1.sql suspect_from_v1.sql)
SQL_VIEWS      := $(patsubst %,sql/views/%.sql,run_image_v2 run_image_v1 waiting_v1 runs inputs steps attempts \
                    findings approvals pending_approvals timeline locks why_waiting why_not_compensated \
                    stuck dead_letters unknown_outcomes keys requests bulk bulk_runs workflows \
                    schedules daemons services alerts stats audit tenants tombstones late_answers rewinds \
                    lost_starts suspects help)
SQL_API        := $(SQL_FIRST) $(SQL_VIEWS) \
                  $(filter-out $(SQL_FIRST),$(sort $(wildcard sql/api/*.sql)))

$(if $(filter-out $(SQL_VIEWS),$(wildcard sql/views/*.sql)),\
     $(error not in SQL_VIEWS of sql/sql.mk: $(filter-out $(SQL_VIEWS),$(wildcard sql/views/*.sql))))

# The participant kit, for other databases: `sagad guard --print`.
SQL_GUARD      := $(patsubst %,sql/guard/%.sql,schema hash claim done keys keep close)
$(if $(filter-out $(SQL_GUARD),$(wildcard sql/guard/*.sql)),\
     $(error not in SQL_GUARD of sql/sql.mk: $(filter-out $(SQL_GUARD),$(wildcard sql/guard/*.sql))))

$(BUILD)/sql/bundle.c: sql/bundle.awk sql/sql.mk sql/roles.sql sql/grants.sql $(SQL_MIGRATIONS) $(SQL_API) $(SQL_GUARD)
	$(call say,AWK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)awk -f sql/bundle.awk roles sql/roles.sql migrations $(SQL_MIGRATIONS) \
	    api $(SQL_API) grants sql/grants.sql guard $(SQL_GUARD) >$@.tmp && mv $@.tmp $@

$(BUILD)/sql/bundle.o: $(BUILD)/sql/bundle.c sql/bundle.h
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

# The daemon's archive holds it; the recipe of the archive takes every prerequisite.
$(call lib,7): $(BUILD)/sql/bundle.o
