package datadir

import (
	"bytes"
	"os"
)

// Fleet is the folder's copy of the fleet file that it was made with; a built-in fleet has none.
func (d Dir) Fleet() string { return d.Join("fleet.yaml") }

// KeepsFleet reports whether a fleet that is asked for, by name or as a file, is the one that
// the folder was made with, as its state says; "" asks for none.
func (d Dir) KeepsFleet(s *State, asked string) bool {
	if asked == "" || asked == s.Fleet {
		return true
	}
	kept, err := os.ReadFile(d.Fleet())
	if err != nil {
		return false
	}
	file, err := os.ReadFile(asked)
	return err == nil && bytes.Equal(kept, file)
}
