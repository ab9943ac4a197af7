#include "server/images/panels.h"

#include <stdio.h>
#include <string.h>

#define SCALED 254 /* number of colours for values. PAPER and INK are two more colours */
#define PAPER 254
#define INK 255

#define LETTER_WIDTH 6 /* in dots, including the space after a letter */
#define LETTER_HEIGHT 7
#define MARGIN 12 /* in pixels, around the picture */
#define GAP 8     /* in pixels, between two panels */
#define LEGEND_WIDTH 128
#define LEGEND_HEIGHT 10
#define LABEL_SIZE 2 /* width and height of a letter's dot, in pixels */
#define LABEL_ROOM (LETTER_HEIGHT * LABEL_SIZE + GAP)

#define WISHED_SIDE 1600 /* limit in pixels for width and height, when panels_fit chooses the size of a cell */
#define WISHED_CELL 8

/* ---- Letters ---- */

/* A letter is five columns of dots. The lowest bit of a column is its top dot. */
static const struct letter {
    char character;
    uint8_t columns[5];
} letters[] = {
    {'0', {0x3e, 0x51, 0x49, 0x45, 0x3e}}, {'1', {0x00, 0x42, 0x7f, 0x40, 0x00}}, {'2', {0x42, 0x61, 0x51, 0x49, 0x46}},
    {'3', {0x21, 0x41, 0x45, 0x4b, 0x31}}, {'4', {0x18, 0x14, 0x12, 0x7f, 0x10}}, {'5', {0x27, 0x45, 0x45, 0x45, 0x39}},
    {'6', {0x3c, 0x4a, 0x49, 0x49, 0x30}}, {'7', {0x01, 0x71, 0x09, 0x05, 0x03}}, {'8', {0x36, 0x49, 0x49, 0x49, 0x36}},
    {'9', {0x06, 0x49, 0x49, 0x29, 0x1e}}, {'.', {0x00, 0x60, 0x60, 0x00, 0x00}}, {'a', {0x20, 0x54, 0x54, 0x54, 0x78}},
    {'c', {0x38, 0x44, 0x44, 0x44, 0x20}}, {'d', {0x38, 0x44, 0x44, 0x48, 0x7f}}, {'e', {0x38, 0x54, 0x54, 0x54, 0x18}},
    {'h', {0x7f, 0x08, 0x04, 0x04, 0x78}}, {'l', {0x00, 0x41, 0x7f, 0x40, 0x00}}, {'r', {0x7c, 0x08, 0x04, 0x04, 0x08}},
    {'y', {0x0c, 0x50, 0x50, 0x50, 0x3c}},
};

static const uint8_t *letter_columns(char character)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].character == character)
            return letters[i].columns;
    return NULL; /* no letter is drawn for a space */
}

static int64_t text_width(const char *text, int64_t size)
{
    return (int64_t)strlen(text) * LETTER_WIDTH * size;
}

/* ---- Positions of panels ---- */

static int64_t shown_rows(const struct panels *panels, int64_t row)
{
    int64_t n = panels->rows[row].n;
    return n < panels->most_n ? n : panels->most_n;
}

static int64_t shown_heads(const struct panels *panels, int64_t row)
{
    int64_t heads = panels->rows[row].heads - panels->first_head;
    return heads < panels->n_heads ? heads : panels->n_heads;
}

/* The width of a column of the grid, in pixels. It is the width of the widest panel, because attentions may have
 * different numbers of keys. */
static int64_t column_width(const struct panels *panels)
{
    int64_t k = 1;
    for (int64_t i = 0; i < panels->n_rows; i++)
        k = panels->rows[i].k > k ? panels->rows[i].k : k;
    return k * panels->cell;
}

static void label_text(char text[32], const char *word, int64_t number)
{
    snprintf(text, 32, "%s %lld", word, (long long)number);
}

/* The width of the labels of rows at the left, in pixels. */
static int64_t left_room(const struct panels *panels)
{
    char text[32];
    label_text(text, "layer", panels->rows[panels->n_rows - 1].number);
    return text_width(text, LABEL_SIZE) + GAP;
}

static void measure(struct panels *panels)
{
    panels->width = 2 * MARGIN + left_room(panels) + panels->n_heads * (column_width(panels) + GAP) - GAP;
    panels->height = 2 * MARGIN + LABEL_ROOM + LEGEND_HEIGHT + GAP;
    for (int64_t i = 0; i < panels->n_rows; i++)
        panels->height += shown_rows(panels, i) * panels->cell + GAP;
    int64_t legend = 2 * MARGIN + left_room(panels) + LEGEND_WIDTH + GAP + text_width("0.000", LABEL_SIZE);
    panels->width = panels->width > legend ? panels->width : legend;
}

bool panels_fit(struct panels *panels)
{
    bool chosen = panels->cell > 0;
    panels->cell = chosen ? panels->cell : WISHED_CELL;
    measure(panels);
    while (!chosen && panels->cell > 1 && (panels->width > WISHED_SIDE || panels->height > WISHED_SIDE)) {
        panels->cell--;
        measure(panels);
    }
    return panels->width <= PANELS_MAX_SIDE && panels->height <= PANELS_MAX_SIDE &&
           panels->width * panels->height <= PANELS_MAX_PIXELS;
}

/* ---- Drawing ---- */

/* Draws a rectangle, which must lie in the picture. */
static void fill(const struct panels *panels, uint8_t *pixels, int64_t x, int64_t y, int64_t width, int64_t height,
                 uint8_t colour)
{
    for (int64_t i = 0; i < height; i++)
        memset(pixels + (y + i) * panels->width + x, colour, (size_t)width);
}

static void draw_text(const struct panels *panels, uint8_t *pixels, int64_t x, int64_t y, int64_t size,
                      const char *text)
{
    for (; *text; text++, x += LETTER_WIDTH * size) {
        const uint8_t *columns = letter_columns(*text);
        for (int dot = 0; columns && dot < 5 * LETTER_HEIGHT; dot++)
            if (columns[dot % 5] >> dot / 5 & 1)
                fill(panels, pixels, x + dot % 5 * size, y + dot / 5 * size, size, size, INK);
    }
}

/* Returns the largest of `count` values, or `most` if this is larger. */
static float largest(const float *values, int64_t count, float most)
{
    for (int64_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static const float *head_values(const struct panels *panels, int64_t row, int64_t head)
{
    const struct panel_row *of = &panels->rows[row];
    return of->values + (panels->first_head + head) * of->n * of->k;
}

/* Returns the largest value that is drawn, or 0 if no value is positive. */
static float largest_of_all(const struct panels *panels)
{
    float most = 0;
    for (int64_t i = 0; i < panels->n_rows; i++)
        for (int64_t h = 0; h < shown_heads(panels, i); h++)
            most = largest(head_values(panels, i, h), shown_rows(panels, i) * panels->rows[i].k, most);
    return most;
}

static uint8_t colour_of(float value, float most)
{
    float place = most > 0 && value > 0 ? value / most : 0;
    return (uint8_t)(place * (SCALED - 1) + 0.5f);
}

static void draw_panel(const struct panels *panels, uint8_t *pixels, int64_t x, int64_t y, const float *values,
                       int64_t n, int64_t k, float most)
{
    for (int64_t p = 0; p < n; p++)
        for (int64_t j = 0; j < k; j++)
            fill(panels, pixels, x + j * panels->cell, y + p * panels->cell, panels->cell, panels->cell,
                 colour_of(values[p * k + j], most));
}

/* Draws the label of a column of the grid: "head 3", or "3" if "head 3" is too wide, or nothing if "3" is also too
 * wide. */
static void draw_head_label(const struct panels *panels, uint8_t *pixels, int64_t x, int64_t width, int64_t head)
{
    char text[32];
    label_text(text, "head", head);
    const char *label = text_width(text, LABEL_SIZE) <= width ? text : text + strlen("head ");
    if (text_width(label, LABEL_SIZE) <= width)
        draw_text(panels, pixels, x, MARGIN, LABEL_SIZE, label);
}

/* Draws a bar with the colours from 0 to the largest value. */
static void draw_legend(const struct panels *panels, uint8_t *pixels, float most)
{
    char text[32];
    int64_t y = panels->height - MARGIN - LEGEND_HEIGHT, x = MARGIN + left_room(panels);
    int64_t text_y = y - (LETTER_HEIGHT * LABEL_SIZE - LEGEND_HEIGHT) / 2;
    draw_text(panels, pixels, x - GAP - text_width("0", LABEL_SIZE), text_y, LABEL_SIZE, "0");
    for (int64_t i = 0; i < LEGEND_WIDTH; i++)
        fill(panels, pixels, x + i, y, 1, LEGEND_HEIGHT, (uint8_t)(i * (SCALED - 1) / (LEGEND_WIDTH - 1)));
    if (panels->scaled_each)
        snprintf(text, sizeof text, "each");
    else
        snprintf(text, sizeof text, "%.3f", (double)most);
    draw_text(panels, pixels, x + LEGEND_WIDTH + GAP, text_y, LABEL_SIZE, text);
}

void panels_draw(const struct panels *panels, uint8_t *pixels)
{
    int64_t left = MARGIN + left_room(panels), y = MARGIN + LABEL_ROOM, step = column_width(panels) + GAP;
    float most = largest_of_all(panels);
    memset(pixels, PAPER, (size_t)(panels->width * panels->height));
    for (int64_t h = 0; h < panels->n_heads; h++)
        draw_head_label(panels, pixels, left + h * step, step - GAP, panels->first_head + h);
    for (int64_t i = 0; i < panels->n_rows; i++) {
        const struct panel_row *row = &panels->rows[i];
        int64_t n = shown_rows(panels, i);
        char text[32];
        label_text(text, "layer", row->number);
        draw_text(panels, pixels, MARGIN, y, LABEL_SIZE, text);
        for (int64_t h = 0; h < shown_heads(panels, i); h++) {
            const float *values = head_values(panels, i, h);
            float end = panels->scaled_each ? largest(values, n * row->k, 0) : most;
            draw_panel(panels, pixels, left + h * step, y, values, n, row->k, end);
        }
        y += n * panels->cell + GAP;
    }
    draw_legend(panels, pixels, most);
}

void panels_palette(uint8_t palette[PANELS_COLOURS][3])
{
    /* The colours from value 0 to the largest value, each as {red, green, blue}. The daemon's web page uses the same
     * colours. */
    static const uint8_t stops[][3] = {{240, 245, 248}, {178, 212, 226}, {84, 158, 190}, {22, 98, 140}, {8, 40, 78}};
    enum { PARTS = sizeof stops / sizeof *stops - 1 };
    for (int i = 0; i < SCALED; i++) {
        int part = i * PARTS / SCALED, rest = i * PARTS - part * SCALED;
        for (int c = 0; c < 3; c++)
            palette[i][c] = (uint8_t)(stops[part][c] + (stops[part + 1][c] - stops[part][c]) * rest / SCALED);
    }
    memset(palette[PAPER], 255, 3);
    memset(palette[INK], 40, 3);
}
