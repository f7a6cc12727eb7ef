"""Share groups (KIP-932): the members of a group share its partitions, and the records in them, as the coordinator
assigns. Records are taken and acknowledged at the leaders of the partitions.
"""
