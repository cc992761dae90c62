package main

import "unsafe"

// borrowed is a string's own bytes, for reading only: a copy would be counted against an engine that hands out strings.
func borrowed(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
