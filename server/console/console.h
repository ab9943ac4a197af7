/* console: the page that a browser shows for GET /. The page is a constant of the binary, and contains no link to
 * another host. Its script sends requests to this daemon. console.mk makes the page from console.html, console.css and
 * the parts of the script. */
#ifndef SERVER_CONSOLE_CONSOLE_H
#define SERVER_CONSOLE_CONSOLE_H

extern const char console_page[], console_page_end[];     /* the bytes of the page, without a final NUL */
extern const char console_packed[], console_packed_end[]; /* the bytes of the page, compressed by gzip */

extern const char console_policy[]; /* for Content-Security-Policy. Contains the hashes of the script and the style */
extern const char console_tag[];    /* for ETag: a weak tag that contains the hash of the page */

#endif
