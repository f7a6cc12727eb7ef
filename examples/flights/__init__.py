"""The main job on real input: a year of flights through a broker and a Spark pipeline, checked against plain pandas."""
