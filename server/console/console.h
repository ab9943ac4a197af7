/* console: the page that a browser shows for GET /. The page is a constant of the binary. It has no link to another
 * host. Its script reads the routes of this daemon. Its sources are console.html, console.css and the parts of the
 * script, which console.mk lists. */
#ifndef SERVER_CONSOLE_CONSOLE_H
#define SERVER_CONSOLE_CONSOLE_H

extern const char console_page[], console_page_end[];     /* the bytes of the page, without a final NUL */
extern const char console_packed[], console_packed_end[]; /* the bytes of the page, compressed by gzip */

extern const char console_policy[]; /* for Content-Security-Policy. Has the hashes of the page's script and style */
extern const char console_tag[];    /* for ETag: a weak tag, with the hash of the page */

#endif
