#include "engine/base/decimal.h"

struct decimal {
    __int128 coefficient;
    uint32_t scale; /* digits after the point */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool decimal_is_number(struct str text)
{
    const char *p = text.ptr, *end = p + text.len;
    if (p < end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return false;
    if (*p == '0' && p + 1 < end && is_digit(p[1]))
        return false;
    while (p < end && is_digit(*p))
        p++;
    if (p < end && *p == '.') {
        if (++p == end || !is_digit(*p))
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || !is_digit(*p))
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    return p == end;
}

static __int128 power_of_ten(uint32_t exponent)
{
    __int128 power = 1;
    while (exponent--)
        power *= 10;
    return power;
}

static bool magnitude_fits(__int128 coefficient)
{
    const __int128 limit = power_of_ten(DECIMAL_DIGITS_MAX);
    return coefficient > -limit && coefficient < limit;
}

static int too_large(struct str number, struct err *err)
{
    return err_set(err, ERR_LIMIT, "the number %.*s has too many digits to calculate with",
                   (int)MIN(number.len, (size_t)60), number.ptr);
}

static int64_t exponent_read(struct str text)
{
    bool negative = text.len && text.ptr[0] == '-';
    int64_t value = 0;
    for (size_t i = 0; i < text.len; i++)
        if (is_digit(text.ptr[i]) && value < 1000000)
            value = value * 10 + (text.ptr[i] - '0');
    return negative ? -value : value;
}

static int decimal_read(struct str text, struct decimal *out, struct err *err)
{
    bool negative = text.len && text.ptr[0] == '-', after_point = false;
    int64_t scale = 0;
    *out = (struct decimal){0};
    for (size_t i = negative; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '.') {
            after_point = true;
        } else if (is_digit(c)) {
            out->coefficient = out->coefficient * 10 + (c - '0');
            scale += after_point;
            if (!magnitude_fits(out->coefficient))
                return too_large(text, err);
        } else {
            scale -= exponent_read((struct str){text.ptr + i + 1, text.len - i - 1});
            break;
        }
    }
    if (scale < 0) {
        for (; scale < 0 && out->coefficient; scale++) {
            out->coefficient *= 10;
            if (!magnitude_fits(out->coefficient))
                return too_large(text, err);
        }
        scale = 0;
    }
    if (scale > DECIMAL_DIGITS_MAX)
        return too_large(text, err);
    out->scale = (uint32_t)scale;
    if (negative)
        out->coefficient = -out->coefficient;
    return 0;
}

static int decimal_write(struct decimal value, struct arena *arena, struct str *out,
                         struct err *err)
{
    if (value.scale == 0 && (value.coefficient > INT64_MAX || value.coefficient < INT64_MIN))
        return err_set(err, ERR_LIMIT, "the result does not fit a 64-bit integer");
    if (!magnitude_fits(value.coefficient) || value.scale > DECIMAL_DIGITS_MAX)
        return err_set(err, ERR_LIMIT, "the result has more than %d digits", DECIMAL_DIGITS_MAX);
    char digits[DECIMAL_DIGITS_MAX * 2 + 4];
    size_t at = sizeof(digits);
    bool negative = value.coefficient < 0;
    __int128 rest = negative ? -value.coefficient : value.coefficient;
    for (uint32_t i = 0; rest || i <= value.scale; i++) {
        if (i == value.scale && value.scale)
            digits[--at] = '.';
        digits[--at] = (char)('0' + (int)(rest % 10));
        rest /= 10;
    }
    if (negative)
        digits[--at] = '-';
    *out = arena_str(arena, (struct str){digits + at, sizeof(digits) - at});
    return 0;
}

static bool align(struct decimal *a, struct decimal *b)
{
    struct decimal *low = a->scale < b->scale ? a : b;
    uint32_t scale = MAX(a->scale, b->scale);
    for (; low->scale < scale; low->scale++) {
        low->coefficient *= 10;
        if (!magnitude_fits(low->coefficient))
            return false;
    }
    return true;
}

static int sum(struct str a_text, struct str b_text, int sign, struct arena *arena, struct str *out,
               struct err *err)
{
    struct decimal a, b;
    int code = decimal_read(a_text, &a, err);
    if (!code)
        code = decimal_read(b_text, &b, err);
    if (code)
        return code;
    if (!align(&a, &b))
        return err_set(err, ERR_LIMIT, "the result has more than %d digits", DECIMAL_DIGITS_MAX);
    a.coefficient += sign * b.coefficient;
    return decimal_write(a, arena, out, err);
}

int decimal_add(struct str a, struct str b, struct arena *arena, struct str *out, struct err *err)
{
    return sum(a, b, 1, arena, out, err);
}

int decimal_sub(struct str a, struct str b, struct arena *arena, struct str *out, struct err *err)
{
    return sum(a, b, -1, arena, out, err);
}

int decimal_mul(struct str a_text, struct str b_text, struct arena *arena, struct str *out,
                struct err *err)
{
    struct decimal a, b, product;
    int code = decimal_read(a_text, &a, err);
    if (!code)
        code = decimal_read(b_text, &b, err);
    if (code)
        return code;
    product.scale = a.scale + b.scale;
    if (__builtin_mul_overflow(a.coefficient, b.coefficient, &product.coefficient))
        return err_set(err, ERR_LIMIT, "the result has more than %d digits", DECIMAL_DIGITS_MAX);
    return decimal_write(product, arena, out, err);
}

int decimal_trunc(struct str a, int64_t *out, struct err *err)
{
    struct decimal value;
    int code = decimal_read(a, &value, err);
    if (code)
        return code;
    __int128 whole = value.coefficient / power_of_ten(value.scale);
    if (whole > INT64_MAX || whole < INT64_MIN)
        return err_set(err, ERR_LIMIT, "the number does not fit a 64-bit integer");
    *out = (int64_t)whole;
    return 0;
}

bool decimal_is_whole(struct str number)
{
    /* Counted on the text, so that it holds for numbers too large to calculate with. */
    int64_t exponent = 0, last_nonzero_after_point = 0, after_point = 0;
    bool point = false, zero = true;
    for (size_t i = 0; i < number.len; i++) {
        char c = number.ptr[i];
        if (c == '.') {
            point = true;
        } else if (is_digit(c)) {
            after_point += point;
            if (c != '0') {
                zero = false;
                last_nonzero_after_point = after_point;
            }
        } else if (c == 'e' || c == 'E') {
            exponent = exponent_read((struct str){number.ptr + i + 1, number.len - i - 1});
            break;
        }
    }
    if (zero || exponent >= last_nonzero_after_point)
        return true;
    if (last_nonzero_after_point > 0 || exponent >= 0)
        return false;
    /* A negative exponent may only take away trailing zeros of the whole part. */
    int64_t trailing = 0;
    for (size_t i = 0; i < number.len && (is_digit(number.ptr[i]) || number.ptr[i] == '-'); i++)
        trailing = number.ptr[i] == '0' ? trailing + 1 : 0;
    return -exponent <= trailing;
}
