package main

import "unsafe"

// lent is a string's own bytes, for reading only: a copy would be counted against an engine that hands out strings.
func lent(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
