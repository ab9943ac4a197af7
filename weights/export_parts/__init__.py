"""What export_module() of export.py, beside this folder, is made of. It needs torch 2.5 or later.

    module.py  the whole: leaves, trace, graph, check, files
    leaves.py  which parts are the libraries' classes, and with which arguments they were made
    trace.py   torch.export, with each of these classes as one operation
    sizes.py   which dimensions are free, and from where to where
    graph.py   the traced program as config.json has it
    lower.py   operations that are written as others
    check.py   the graph computed in torch, for comparison with the module"""

import importlib

# export.py beside this folder: a module of its own, or one of the package linformerd.
exporter = importlib.import_module(f"{__name__.rpartition('.')[0]}.export".lstrip("."))
refuse = exporter.refuse
