"""The share coordinator (KIP-932): how far each share group has come in each partition, as records of
`__share_group_state`.
"""
