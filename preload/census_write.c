/* census_write.c */
