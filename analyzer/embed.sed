# Text to C string literals, a line each: the schema becomes part of the program.
s/\\/\\\\/g
s/"/\\"/g
s/.*/"&\\n"/
