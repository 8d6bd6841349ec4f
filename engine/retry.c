#include "engine/retry.h"

#include "engine/base/rand.h"

static uint32_t attempts_counted(const struct effect_state *side)
{
    ASSERT(side->attempts_free + side->attempts_base <= side->attempts);
    return side->attempts - side->attempts_free - side->attempts_base;
}

bool retry_has_attempts(const struct plan_retry *retry, const struct effect_state *side)
{
    return attempts_counted(side) < retry->attempts;
}

static int64_t delay_base_us(const struct plan_retry *retry, uint32_t sends)
{
    int64_t delay = retry->delay_us;
    for (uint32_t i = 1; i < sends && delay < retry->max_delay_us; i++)
        delay = (int64_t)MIN((__int128)delay * retry->factor_milli / 1000,
                             (__int128)retry->max_delay_us);
    return MIN(delay, retry->max_delay_us);
}

struct wall retry_next(const struct plan_retry *retry, const struct effect_state *side,
                       uint64_t seed, int64_t after_us, struct wall now)
{
    /* An attempt that cost none does not lengthen the schedule either. */
    int64_t base = delay_base_us(retry, MAX(attempts_counted(side), 1u));
    if (after_us > 0)
        base = MAX(after_us, RETRY_FREE_DELAY_MIN_US);
    uint64_t spread = (uint64_t)base / 100 * retry->jitter_percent;
    int64_t jitter = spread ? (int64_t)(rand_mix(seed ^ side->attempts) % spread) : 0;
    struct wall next = wall_add(wall_add(now, base), jitter);
    if (wall_is_set(side->budget_at) && next.us > side->budget_at.us)
        return WALL_NONE;
    return next;
}
