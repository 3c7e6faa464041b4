package fleet

import (
	"fmt"
	"regexp"
)

// reference is the grammar of an image reference: host, path, tag, digest.
// Source: the distribution project's reference grammar.
var reference = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]+)?/)?` +
	`[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*` +
	`(?::[\w][\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$`)

// invalidImage says why an image reference cannot be read; "" is that it can.
func invalidImage(image string) string {
	if reference.MatchString(image) {
		return ""
	}
	return fmt.Sprintf("couldn't parse image name %q: invalid reference format", image)
}
