// Package fetch downloads a model into a folder: from HTTP, S3, Google Cloud Storage, or Hugging Face. A download that was interrupted
// goes on where it ended, and a file has its name only when all of it is there and its checksum is right.
package fetch
