package berth_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// clouds begin the modules by which programs talk to clouds.
var clouds = []string{
	"cloud.google.com/", "google.golang.org/api", "github.com/aws/", "github.com/Azure/azure-sdk", "github.com/Azure/go-autorest",
	"github.com/digitalocean/", "github.com/oracle/oci-go-sdk", "github.com/IBM/", "github.com/hetznercloud/", "github.com/gophercloud/",
	"github.com/ovh/", "github.com/scaleway/", "github.com/linode/", "k8s.io/cloud-provider-",
}

// TestNoCloudIsAsked holds every module of this repository to what works on all
// clouds and without one: none of them, and nothing that they need, is a client of a
// cloud.
//
// rows: JH-01
func TestNoCloudIsAsked(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		found++
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			name := strings.TrimPrefix(strings.TrimSpace(line), "require ")
			for _, cloud := range clouds {
				if strings.HasPrefix(name, cloud) {
					t.Errorf("%s needs %s, a client of a cloud", path, strings.TrimSpace(line))
				}
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d modules found: %v", found, err)
	}
}
