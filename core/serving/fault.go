package serving

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Server is what one replica has said about its model.
type Server struct {
	Type  string   // the server, such as tensorflow-serving; "" is not known
	Model string   // where the model is, as the user wrote it: pvc://model-storage/
	Lines []string // the end of its log
	// Fetch is what the init container that downloads the model has said at its end; "" is that it has not failed.
	Fetch string
}

// complaint is a sentence of a server's log, and what it means. %[1]s is where the model is.
type complaint struct {
	server string // "" is any
	says   *regexp.Regexp
	means  string
}

// complaints are tried in this order. The sentences are those of the servers: file_system_storage_path_source.cc of TensorFlow
// Serving, model_repository_manager of Triton, ModelMissingError and RuntimeError of KServe's Python servers, PyTorch, and CUDA.
var complaints = []complaint{
	{
		"", regexp.MustCompile(`(?i)CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|No available memory for the cache blocks`),
		"the model does not fit into the memory of its GPU; ask for a GPU with more memory or for more GPUs, or load it with fewer bits",
	},
	{
		"", regexp.MustCompile(`CUDA driver version is insufficient for CUDA runtime version|forward compatibility was attempted on non supported HW`),
		"the node's NVIDIA driver is too old for the CUDA of the image; use an older image, or a node with a newer driver",
	},
	{
		"tensorflow-serving", regexp.MustCompile(`No versions of servable .* found under base path`),
		"TensorFlow Serving finds no model in %[1]s: it reads a SavedModel in a folder that is a number, such as 1/saved_model.pb. " +
			"A file such as model.h5 or model.keras is not one: load it in Keras and save it with model.export(\"PATH/1\")",
	},
	{
		"tensorflow-serving", regexp.MustCompile(`Could not find base path|FileSystemStoragePathSource encountered a filesystem access error`),
		"TensorFlow Serving cannot read %[1]s: the path does not exist; correct storageUri",
	},
	{
		"tritonserver", regexp.MustCompile(`(?i)at least one version must be available under the version policy|failed to load .* no model version was found`),
		"Triton finds no version of the model in %[1]s: it reads MODEL/1/model.plan (or .onnx, .pt, .savedmodel), with the version as a folder that is a number",
	},
	{
		"torchserve", regexp.MustCompile(`config\.properties.*(No such file|not found)|(No such file|NoSuchFile).*config\.properties|Model store .*(not found|does not exist)`),
		"TorchServe finds no model in %[1]s: it reads model-store/NAME.mar and config/config.properties; make the archive with torch-model-archiver",
	},
	{
		"", regexp.MustCompile(`Could not find a model file|[Mm]odel file .* (is missing|not found)|ModelMissingError|Failed to fetch model. No model found`),
		"the server finds no model in %[1]s: there is no file of its format",
	},
	{
		"", regexp.MustCompile(`More than one model file is detected`),
		"there are several model files in %[1]s, and the server reads one; move the right one into a separate folder and name that in storageUri",
	},
}

// FaultOf finds in what a replica has said why its model cannot be served; nil is that nothing in it does.
func FaultOf(s *Server) *Fault {
	if s.Fetch != "" {
		return &Fault{FaultLoad, fmt.Sprintf("the model cannot be downloaded from %s: %s", s.Model, strings.TrimPrefix(lastLine(s.Fetch), "error: "))}
	}
	for _, line := range slices.Backward(s.Lines) {
		for _, c := range complaints {
			if (c.server == "" || c.server == s.Type) && c.says.MatchString(line) {
				text := c.means
				if strings.Contains(text, "%[1]s") {
					text = fmt.Sprintf(text, s.Model)
				}
				return &Fault{FaultLoad, text}
			}
		}
	}
	return nil
}

// The words of a kubelet about what a container refers to.
var (
	noSecret = regexp.MustCompile(`^secret "([^"]+)" not found$`)
	noKey    = regexp.MustCompile(`^couldn't find key (\S+) in Secret [^/]+/(\S+)$`)
)

// Unstarted is the fault of a container that its node cannot start, in the kubelet's words. download is that it downloads the model.
func Unstarted(container, reason, message string, download bool) *Fault {
	secret := ""
	if m := noSecret.FindStringSubmatch(message); m != nil {
		secret = fmt.Sprintf("Secret %s does not exist; create it (kubectl create secret generic %s --from-literal=KEY=VALUE)", m[1], m[1])
	} else if m := noKey.FindStringSubmatch(message); m != nil {
		secret = fmt.Sprintf("Secret %s has no key %s; add it (kubectl edit secret %s), or name one that it has", m[2], m[1], m[2])
	}
	switch {
	case secret != "" && download:
		return &Fault{FaultLoad, "the model cannot be downloaded: " + secret + ", or remove it from the service's storage, and from the secrets of its ServiceAccount"}
	case secret != "":
		return &Fault{FaultUnhealthy, fmt.Sprintf("container %s does not start: %s", container, secret)}
	}
	return &Fault{FaultUnhealthy, fmt.Sprintf("container %s does not start (%s): %s", container, reason, message)}
}

// mostWords bounds what is repeated of a program's output, in bytes.
const mostWords = 300

// lastLine is the last line of a text that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	return strings.ToValidUTF8(line[:min(len(line), mostWords)], "")
}
