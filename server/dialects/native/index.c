/* index: an HTML page that lists models and routes. GET / returns it with status 200 to clients that do not ask for the
 * console (front.c). Some of these clients only test whether the server answers. */
#include "server/dialects/native/routes.h"

#include <string.h>

/* Writes text with HTML's escapes. The text may come from outside of the program. */
static void write_escaped(struct writer *writer, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            writer_text(writer, "&amp;");
            break;
        case '<':
            writer_text(writer, "&lt;");
            break;
        case '>':
            writer_text(writer, "&gt;");
            break;
        default:
            writer_bytes(writer, text, 1);
        }
    }
}

static void write_models(struct writer *writer, const struct request *request)
{
    const struct model_set *set = request->set;
    writer_text(writer, "<h2>Models</h2>\n");
    if (keys_needed(request->service->options.keys)) { /* this page needs no API key, so it must not name models */
        writer_text(writer, "<p>/info lists them and needs the API key.</p>\n");
        return;
    }
    writer_text(writer, "<ul>\n");
    for (int64_t i = 0; i < set->n_models; i++) {
        writer_text(writer, "<li>");
        write_escaped(writer, set->models[i].name);
        writer_text(writer, ": ");
        write_escaped(writer, model_info(set->models[i].model)->architecture);
        writer_text(writer, "\n");
    }
    writer_text(writer, "</ul>\n");
}

/* Links are relative, because a proxy may serve this page at another path. */
static void write_routes(struct writer *writer, const struct dialect *const *dialects)
{
    writer_text(writer, "<h2>Routes</h2>\n<ul>\n");
    for (size_t i = 0; routes_at(dialects, i); i++) {
        const struct route *route = routes_at(dialects, i);
        bool is_link = strcmp(route->method, "GET") == 0 && !strstr(route->path, "{}") && route->path[1];
        if (is_link)
            writer_format(writer, "<li>%s <a href=\"%s\">%s</a>\n", route->method, route->path + 1, route->path);
        else
            writer_format(writer, "<li>%s %s\n", route->method, route->path);
    }
    writer_text(writer, "</ul>\n");
}

enum outcome native_index(struct request *request)
{
    struct writer *writer = &request->answer;
    writer_text(writer, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>linformerd</title>\n"
                        "<h1>linformerd " LINFORMERD_VERSION "</h1>\n"
                        "<p>An inference server for Linformer transformers.</p>\n");
    write_models(writer, request);
    write_routes(writer, request->service->options.dialects);
    request->answer_type = "text/html; charset=utf-8";
    return OUTCOME_ANSWERED;
}
