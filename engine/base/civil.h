/*
 * civil.h: dates of the proleptic Gregorian calendar as days since 1970-01-01.
 */
#ifndef BASE_CIVIL_H
#define BASE_CIVIL_H

#include "engine/base/base.h"

/* `month` is 1 to 12, `day` may lie outside the month: the date moves on by so many days. */
int64_t civil_days(int64_t year, int64_t month, int64_t day);
void civil_date(int64_t days, int64_t *year, int64_t *month, int64_t *day);
int64_t civil_month_days(int64_t year, int64_t month);

/* 0 is Sunday. */
static inline int civil_weekday(int64_t days)
{
    return (int)(((days + 4) % 7 + 7) % 7);
}

#endif
