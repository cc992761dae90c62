module engine

go 1.24

require kvsim/adapter v0.0.0

require github.com/akrylysov/pogreb v0.10.2

replace kvsim/adapter => ../../adapter/go
