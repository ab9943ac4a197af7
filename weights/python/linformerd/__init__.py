"""linformerd serves Linformer models over HTTP. This package contains the daemon with its libraries, the exporter for
trained models, and a client.

    import linformerd

    with linformerd.serve(model, kwargs) as server:   # a model of one of the five libraries
        vectors = server.embed([[5, 17, 3]])

    linformerd.export(model, kwargs, "mine")          # then, in a shell: linformerd --model mine

serve() exports the model to a temporary folder, starts the daemon on a free port, and ends the daemon after the block.
Client(url) sends requests to a daemon that already runs.

The client needs only Python's standard library. export() also needs numpy and the library of the model, and
export_module() needs torch."""

from ._client import Client, Generation, RequestError, Token
from ._daemon import StartError, executable
from ._export import export, export_module
from ._serve import Server, serve
from ._version import __version__

__all__ = ["Client", "Generation", "RequestError", "Server", "StartError", "Token", "__version__", "executable",
           "export", "export_module", "serve"]
