"""`make wheel` puts export.py and export_parts of weights/ here. linformerd.export() and export_module() call them."""
