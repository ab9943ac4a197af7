"""The parts of export_module() in export.py, which is beside this folder. They need torch (tested with 2.13).

    module.py  the whole: calls the other parts, and collects the tensors
    leaves.py  which parts are the libraries' classes, and with which arguments they were made
    trace.py   torch.export, with each of these classes as one operation
    sizes.py   which dimensions are free, and their least and largest sizes
    graph.py   the traced program in the form of config.json
    lower.py   operations that are written as other operations
    check.py   computes the graph in torch, for the comparison with the module"""

import importlib

# export.py is beside this folder. It is a separate module, or part of the package linformerd.
exporter = importlib.import_module(f"{__name__.rpartition('.')[0]}.export".lstrip("."))
refuse = exporter.refuse
