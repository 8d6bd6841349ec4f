/*
 * rand.h: seeded randomness; the seed comes in, nothing here reads a device.
 */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include "engine/base/base.h"

struct rand {
    uint64_t state;
};

static inline struct rand rand_seed(uint64_t seed)
{
    return (struct rand){seed};
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t rand_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t rand_next(struct rand *rand)
{
    uint64_t out = rand_mix(rand->state);
    rand->state += UINT64_C(0x9e3779b97f4a7c15);
    return out;
}

/* Uniform in [0, bound) up to a bias of bound / 2^64; bound > 0. */
static inline uint64_t rand_below(struct rand *rand, uint64_t bound)
{
    return (uint64_t)((unsigned __int128)rand_next(rand) * bound >> 64);
}

static inline bool rand_chance(struct rand *rand, unsigned percent)
{
    return rand_below(rand, 100) < percent;
}

#endif
