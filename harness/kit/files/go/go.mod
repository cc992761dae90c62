module engine

go 1.24

require kvsim/adapter v0.0.0

replace kvsim/adapter => ./adapter
