/*
 * suspect.h: runs of a database that was restored to an earlier time than it had acknowledged.
 *
 * What the image of such a run calls not sent may have been sent, and more than once, in the time
 * that was lost. So each action of it that would be sent for the first time, or again, is treated
 * as one with an unknown outcome: the table of unknown.h says whether it is repeated, asked about,
 * or waits for a person (PARK_SUSPECT). A person who retries a run that is parked so vouches for
 * it: from then on it is like any other.
 */
#ifndef ENGINE_SUSPECT_H
#define ENGINE_SUSPECT_H

#include "engine/decision.h"

/* Before a first send of `side`, which is claimed and not written. True if it must not be sent now:
 * then the side is written as one that is asked about, or that waits for a person. */
bool suspect_hold(struct draft *draft, struct instance *instance, enum direction direction,
                  struct effect_state *side);
/* After a load: the same for what was to be sent again, or was offered to workers, or waited for
 * room at its service. True if the side has ended or is asked about. */
bool suspect_recover(struct draft *draft, struct instance *instance, enum direction direction);
/* The side waits for a person because of the restore, and nothing was sent since. */
bool suspect_is_held(const struct effect_state *side);
/* A person vouches that it was not applied: it may be sent. Precondition: suspect_is_held. */
void suspect_release(struct draft *draft, struct instance *instance, enum direction direction);
/* A person vouches for the run. */
void suspect_trust(struct draft *draft);

#endif
