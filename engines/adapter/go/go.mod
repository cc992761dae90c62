module kvsim/adapter

go 1.24
