class Freestone < Formula
  desc "Analytical SQL database with layouts that can be chosen"
  homepage "https://freestone.example"
  version "@VERSION@"
  license "Apache-2.0"

@ARCHIVES@
  def install
    bin.install "bin/freestone"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/freestone"
    zsh_completion.install "share/zsh/site-functions/_freestone"
    fish_completion.install "share/fish/vendor_completions.d/freestone.fish"
    doc.install "README.md", "CHANGELOG.md"
  end

  test do
    assert_equal "x\n42\n", shell_output("#{bin}/freestone -c 'SELECT 42 AS x' --format csv")
  end
end
