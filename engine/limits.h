/*
 * limits.h: every limit of the engine that is not part of the language, with its reason.
 */
#ifndef ENGINE_LIMITS_H
#define ENGINE_LIMITS_H

/* A unit's answer costs one fsync; four in flight hide it, more only make batches smaller. */
#define UNITS_IN_FLIGHT_MAX 4
/* With units in flight a further one is sent only when it is worth a commit of its own. */
#define UNIT_RECORDS_WORTH 16
/* Bounds one transaction's time and memory; the rest goes into the next unit. */
#define UNIT_RUNS_MAX 1024
/* Items of loops begun by one decision: bounds its time and its share of a unit; the rest follows
 * at once with the next. */
#define CLAIMS_PER_DECISION 256
/* The list of one for_each as text: what a map() over a large input may grow to. */
#define ITEMS_BYTES_MAX (16 * 1024 * 1024)
/* An input above it is kept parsed while a loop of the run reads it for each item. */
#define INPUT_PARSE_BYTES_MIN 2048

/* Workflow files that are applied together: each is compiled while nothing else goes on. */
#define SET_FILES_MAX 1000

/* Runs held in memory, each some 4 KiB and its payloads: a submit past it is answered "later". */
#define RESIDENT_RUNS_MAX 200000
/* Events that wait for one run: replies cannot pile up, verbs can. What workers report ends tasks,
 * of which a loop may have many in the same moment. */
#define RUN_EVENTS_MAX 64
#define RUN_REPORTS_MAX 1024

/* Dry runs that steps declare are for people who wait at a screen: few at a time, and never among
 * what the runs send. The whole of a run's dry run takes no longer than a command may. */
#define REHEARSALS_MAX 8
#define REHEARSAL_TIMEOUT_US (10 * SECOND_US)
#define REHEARSALS_PER_RUN_MAX 20
#define REHEARSALS_PER_RUN_US (30 * SECOND_US)
/* Of each answer's body so much is shown. */
#define REHEARSAL_BODY_BYTES 8192

#endif
