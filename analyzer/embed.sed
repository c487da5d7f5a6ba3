# Text to C string literals, a line each: schema.sql becomes part of the program.
s/\\/\\\\/g
s/"/\\"/g
s/.*/"&\\n"/
