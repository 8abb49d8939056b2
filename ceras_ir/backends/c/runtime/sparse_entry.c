/* A decoded weight, and the place of its input in the planes. */
struct sparse_entry_@NAME@ { int32_t at; @WIDE@ w; };
