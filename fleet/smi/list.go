package smi

import (
	"fmt"
	"io"
)

// list answers -L: one line a GPU, and below it one for each MIG device.
func list(w io.Writer, v View) {
	for _, d := range v.Devices {
		fmt.Fprintf(w, "GPU %d: %s (UUID: %s)\n", d.GPU.Index, d.GPU.Product, d.GPU.UUID)
		for i, m := range d.GPU.MIG {
			fmt.Fprintf(w, "  MIG %-11s Device %2d: (UUID: %s)\n", m.Profile, i, m.UUID)
		}
	}
}
