package client

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Manifests returns the files that are named, and those with manifests in folders that are named, sorted in each. A file that
// does not exist is returned as it is.
func Manifests(named []string) ([]string, error) {
	var out []string
	for _, name := range named {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.IsDir() {
			out = append(out, name)
			continue
		}
		before := len(out)
		err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(out) == before {
			return nil, fmt.Errorf("folder %s has no file of manifests: *.yaml, *.yml, or *.json", name)
		}
	}
	return out, nil
}
