/* dialects: the list of all, as http_open takes it. */
#ifndef SERVER_DIALECTS_DIALECTS_H
#define SERVER_DIALECTS_DIALECTS_H

#include "server/http/routes.h"

/* Ended by NULL. The first whose prefix fits a path answers for it. The native one fits every path, so it is last. */
extern const struct dialect *const all_dialects[];

#endif
