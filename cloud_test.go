package berth_test

import (
	"os"
	"path/filepath"
	"slices"
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
	modules := 0
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			modules++
			for line := range strings.Lines(string(text)) {
				name := strings.TrimPrefix(strings.TrimSpace(line), "require ")
				if slices.ContainsFunc(clouds, func(cloud string) bool { return strings.HasPrefix(name, cloud) }) {
					t.Errorf("%s needs %s, a client of a cloud", path, name)
				}
			}
		}
	}
	if modules < 2 {
		t.Errorf("%d modules looked at: the product's and its tools' are not among them", modules)
	}
}
