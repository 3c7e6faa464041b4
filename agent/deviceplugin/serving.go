package deviceplugin

import (
	"context"
	"path/filepath"
)

// Serving returns the socket in a kubelet's folder at which a device plugin of NVIDIA's
// answers now, whatever it serves; "" is none. It is for those who do not follow what
// Options.Foreign is told.
func Serving(ctx context.Context, dir string) string {
	sockets, err := filepath.Glob(filepath.Join(dir, "nvidia*.sock"))
	if err != nil {
		return "" // of a folder with a bad pattern in its name
	}
	for _, path := range sockets {
		if conn := answering(ctx, path); conn != nil {
			_ = conn.Close() // it has answered
			return path
		}
	}
	return ""
}
