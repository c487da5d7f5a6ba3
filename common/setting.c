/*
 * setting.c - see setting.h.
 */
#include "common/setting.h"

#include <stdio.h>
#include <string.h>

enum kind { WORD, PATH, COUNT, NUMBER, SIZE };

/* Arrays, not pointers: nothing to relocate when the target starts. */
static const struct {
    char name[16], words[40];
    unsigned char kind;
} settings[LS_SETTINGS] = {
#define SETTING(ID, kind, words) [LS_SETTING_##ID] = {#ID, words, kind},
#include "common/setting.def"
};

bool ls_setting_is_off(const char *text) {
    return !strcmp(text, "off") || !strcmp(text, "no") || !strcmp(text, "0");
}

/* The place of the meaning that a word has; one past the last where it is none of them. */
static uint64_t place_of(const char *words, const char *text) {
    uint64_t place = 0;
    size_t length = strlen(text);
    for (const char *p = words; *p; p++) {
        size_t word = strcspn(p, " |");
        if (word == length && memcmp(p, text, length) == 0)
            return place;
        p += word;
        place += *p == '|' || !*p;
        if (!*p)
            break;
    }
    return place;
}

static uint64_t meanings(const char *words) {
    uint64_t count = 1;
    for (; *words; words++)
        count += *words == '|';
    return count;
}

/* No blanks, no signs. NULL: it is no number, or too large; else what follows it. */
static const char *read_number(const char *text, uint64_t *value) {
    *value = 0;
    if (*text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*text - '0'), value))
            return NULL;
    return text;
}

static bool read_whole(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    const char *end = read_number(text, value);
    return end && !*end && *value >= least && *value <= most;
}

static bool read_size(const char *text, uint64_t *value) {
    static const char suffixes[] = "KkMmGgTt";
    const char *end = read_number(text, value);
    if (!end || *value == 0)
        return false;
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    if (!suffix)
        return !*end;
    unsigned shift = 10 * (unsigned)((suffix - suffixes) / 2 + 1);
    if (end[1] || *value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    return true;
}

bool ls_setting_parse(enum ls_setting setting, const char *text, uint64_t *value) {
    const char *words = settings[setting].words;
    uint64_t read;
    bool right;
    if (!text || !*text)
        return true;
    switch ((enum kind)settings[setting].kind) {
    case COUNT:
        right = read_whole(text, 1, UINT32_MAX, &read);
        break;
    case NUMBER:
        right = read_whole(text, 0, INT64_MAX, &read);
        break;
    case SIZE:
        right = read_size(text, &read);
        break;
    default:
        read = place_of(words, text);
        right = read < meanings(words) || (settings[setting].kind == PATH && *text == '/');
    }
    if (right)
        *value = read;
    return right;
}

void ls_setting_name(enum ls_setting setting, char name[LS_SETTING_NAME]) {
    snprintf(name, LS_SETTING_NAME, "LAYOUTSPY_%s", settings[setting].name);
}

/* "full, copies or off" */
static void list_words(const char *words, char *list, size_t size) {
    size_t used = 0;
    uint64_t left = meanings(words);
    for (*list = 0; left > 0 && used < size; left--) {
        used +=
            (size_t)snprintf(list + used, size - used, "%.*s%s", (int)strcspn(words, " |"), words,
                             left > 2    ? ", "
                             : left == 2 ? " or "
                                         : "");
        words += strcspn(words, "|");
        words += *words == '|';
    }
}

void ls_setting_wrong(enum ls_setting setting, const char *text, char wrong[LS_SETTING_WRONG]) {
    static const char right[][64] = {
        [COUNT] = "a number from 1 on",
        [NUMBER] = "a number from 0 on",
        [SIZE] = "a number of bytes, or one with K, M, G or T behind it",
    };
    char list[64];
    unsigned kind = settings[setting].kind;
    list_words(settings[setting].words, list, sizeof list);
    snprintf(wrong, LS_SETTING_WRONG, "LAYOUTSPY_%s='%.60s' is no value of it; give %s%s",
             settings[setting].name, text, kind == PATH ? "an absolute path, " : "",
             kind == WORD || kind == PATH ? list : right[kind]);
}
