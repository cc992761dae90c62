module kvsim.test/log

go 1.26
