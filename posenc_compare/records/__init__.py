"""Records of computed cells: their keys, files, readers and differences."""
