/* panels: draws matrices as rectangles of coloured cells. The rectangles, called panels, form a grid with labels. One
 * row of the grid shows the heads of one attention. The functions keep no state, so any thread may call them. */
#ifndef SERVER_IMAGES_PANELS_H
#define SERVER_IMAGES_PANELS_H

#include <stdbool.h>
#include <stdint.h>

#define PANELS_MOST_SIDE 16384                 /* most pixels of a picture in each direction */
#define PANELS_MOST_PIXELS ((int64_t)16 << 20) /* most pixels of a picture */
#define PANELS_MOST_CELL 32                    /* most pixels of a cell in each direction */
#define PANELS_COLOURS 256

struct panel_row {
    int64_t number;      /* for the label */
    const float *values; /* (heads, n, k). Not read by panels_fit */
    int64_t heads, n, k; /* each at least 1 */
};

struct panels {
    const struct panel_row *rows; /* (n_rows) */
    int64_t n_rows;
    int64_t first_head; /* the first head that is drawn */
    int64_t n_heads;    /* number of heads that are drawn. A row of the grid with fewer heads ends earlier */
    int64_t most_n;     /* of each panel, only the first most_n rows are drawn */
    bool scaled_each;   /* the colours of each panel end at its own largest value */
    int64_t cell;       /* pixels of a cell in each direction, 1 to PANELS_MOST_CELL. 0 lets panels_fit choose */

    int64_t width, height; /* of the picture. Set by panels_fit */
};

/* Sets the size of the picture. If panels->cell is 0, sets it to the largest size with which the picture has at most
 * 1600 pixels in each direction, but at least to 1 and at most to 8. Returns false if the picture exceeds one of the
 * limits above. */
bool panels_fit(struct panels *panels);

/* Draws the picture. `pixels` (height, width) are indices of colours. The scale of the colours begins at 0. It ends at
 * the largest value of the picture, or of each panel. */
void panels_draw(const struct panels *panels, uint8_t *pixels);

/* The colours for the indices: red, green, blue. */
void panels_palette(uint8_t palette[PANELS_COLOURS][3]);

#endif
