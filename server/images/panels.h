/* panels: draws matrices as rectangles of coloured cells. The rectangles, called panels, form a grid with labels. One
 * row of the grid shows the heads of one attention. The functions keep no state, so any thread may call them. */
#ifndef SERVER_IMAGES_PANELS_H
#define SERVER_IMAGES_PANELS_H

#include <stdbool.h>
#include <stdint.h>

#define PANELS_MAX_SIDE 16384                 /* maximum width and height of a picture, in pixels */
#define PANELS_MAX_PIXELS ((int64_t)16 << 20) /* maximum number of pixels of a picture */
#define PANELS_MAX_CELL 32                    /* maximum width and height of a cell, in pixels */
#define PANELS_COLOURS 256

struct panel_row {
    int64_t number;      /* the number in the label of the row */
    const float *values; /* the values to draw (heads, n, k). panels_fit does not read them */
    int64_t heads, n, k; /* numbers of heads, rows and columns of `values`. Each is at least 1 */
};

struct panels {
    const struct panel_row *rows; /* `n_rows` rows */
    int64_t n_rows;
    int64_t first_head; /* index of the first head that is drawn */
    int64_t n_heads;    /* number of heads that are drawn. A row of the grid with fewer heads ends earlier */
    int64_t most_n;     /* maximum number of rows of each panel that are drawn. The first rows are drawn */
    bool scaled_each; /* if true, the scale of each panel ends at its own largest value, otherwise at the largest value
                         of the picture */
    /* Width and height of a cell in pixels, from 1 to PANELS_MAX_CELL. 0 lets panels_fit choose the size. */
    int64_t cell;

    int64_t width, height; /* size of the picture in pixels, which panels_fit sets */
};

/* Sets the size of the picture. If panels->cell is 0, chooses the largest cell, from 1 to 8 pixels, with which the
 * picture has at most 1600 pixels in each direction. A cell of 1 pixel may exceed this size. Returns false if the
 * picture exceeds one of the limits above. */
bool panels_fit(struct panels *panels);

/* Draws the picture. `pixels` (height, width) receives indices of colours. The scale of the colours begins at 0, and
 * ends at the largest value of the picture or of each panel. */
void panels_draw(const struct panels *panels, uint8_t *pixels);

/* Writes the colour of each index: red, green, blue. */
void panels_palette(uint8_t palette[PANELS_COLOURS][3]);

#endif
