/* pages: files for an installed daemon that follow from the settings table. The program config/pages.c writes them when
 * the daemon is built. The daemon does not contain them. */
#ifndef CONFIG_PAGES_H
#define CONFIG_PAGES_H

#include "config/settings_table.h"

#include <stdio.h>

/* Each function writes a file to `out`. The caller checks ferror(). */
typedef void page_writer(FILE *out);
page_writer page_write_manual, /* linformerd.8, for man */
    page_write_bash,           /* completion for bash */
    page_write_zsh;            /* completion for zsh */

#endif
