/* census_tensor.c */
