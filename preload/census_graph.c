/* census_graph.c */
