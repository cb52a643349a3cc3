// planck completion: what a shell offers after planck TAB.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tools/planck/commands.h"
#include "tools/planck/print/console.h"

namespace planck::cli {

namespace {

std::vector<const CLI::App*> all_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// The values that an option's description of its type lists: {a,b,c}.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> choices;
  if (open == type.npos || close == type.npos || close < open) return choices;
  std::string word;
  for (const char c : type.substr(open + 1, close - open - 1) + ",") {
    if (c != ',') {
      word += c;
    } else {
      choices.push_back(std::exchange(word, ""));
    }
  }
  return choices;
}

// What is quoted for a shell: '…'.
std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != text.npos; at += 4)
    text.replace(at, 1, "'\\''");
  std::replace(text.begin(), text.end(), '\n', ' ');
  return "'" + text + "'";
}

// Those of a command, and of all.
std::vector<std::string> flags_within(const CLI::App& command, const CLI::App& app) {
  auto flags = flags_of(command);
  for (const std::string& flag : flags_of(app))
    if (std::find(flags.begin(), flags.end(), flag) == flags.end()) flags.push_back(flag);
  return flags;
}

// What is offered after `command`, and after an option `before` the word, and whether `files` are:
// the same text for bash and zsh.
std::string cases_of(const CLI::App& app) {
  std::string commands, words, values;
  for (const CLI::App* c : all_commands(app)) commands += " " + c->get_name();
  for (const CLI::App* c : all_commands(app)) {
    std::string own = fmt::format("{}", fmt::join(flags_within(*c, app), " "));
    const std::string& name = c->get_name();
    if (name == "run" || name == "ops") own += " $(planck ops --names 2>/dev/null)";
    if (name == "completion") own += " bash zsh fish";
    if (name == "help") own += commands;
    const bool no_files = name == "ops" || name == "completion" || name == "help";
    words += fmt::format("    {}) offered=\"{}\"{} ;;\n", name, own, no_files ? " files=" : "");
    for (const CLI::Option* option : c->get_options())
      if (const auto choices = choices_of(*option); !choices.empty())
        for (const std::string& option_name : option->get_lnames())
          values += fmt::format("    {}/--{}) offered=\"{}\" files= ;;\n", c->get_name(),
                                option_name, fmt::join(choices, " "));
  }
  return fmt::format(R"(  offered="{} {}"
  case $command in
{}  esac
  case $command/$before in
{}    run/--list) offered=$(planck ops --names 2>/dev/null) files= ;;
  esac
)",
                     commands.substr(1), fmt::join(flags_of(app), " "), words, values);
}

// Names of files may hold blanks: they are told apart by lines.
std::string bash_lines(const CLI::App& app) {
  return fmt::format(R"(_planck() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= files=yes offered i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${{COMP_WORDS[i]}} != -* ]] && {{ command=${{COMP_WORDS[i]}}; break; }}
  done
{}  COMPREPLY=($(compgen -W "$offered" -- "$word"))
  if [[ -n $command && -n $files && $word != -* ]]; then
    local IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _planck planck
)",
                     cases_of(app));
}

std::string zsh_lines(const CLI::App& app) {
  return fmt::format(R"((( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}
_planck() {{
  local before=${{words[CURRENT-1]}} command= files=yes offered i
  for ((i = 2; i < CURRENT; ++i)); do
    [[ ${{words[i]}} != -* ]] && {{ command=${{words[i]}}; break; }}
  done
{}  compadd -- ${{=offered}}
  [[ -n $command && -n $files && ${{words[CURRENT]}} != -* ]] && _files
  return 0
}}
compdef _planck planck
)",
                     cases_of(app));
}

std::string fish_lines(const CLI::App& app) {
  std::string text = "complete -c planck -f\n";
  const auto options = [&](const CLI::App& from, const std::string& condition) {
    for (const CLI::Option* option : from.get_options()) {
      if (option->get_lnames().empty() && option->get_snames().empty()) continue;
      text += "complete -c planck" + condition;
      for (const std::string& name : option->get_snames()) text += " -s " + name;
      for (const std::string& name : option->get_lnames()) text += " -l " + name;
      if (option->get_expected_min() > 0) text += " -r";
      if (const auto choices = choices_of(*option); !choices.empty())
        text += fmt::format(" -f -a {}", quoted(fmt::format("{}", fmt::join(choices, " "))));
      text += fmt::format(" -d {}\n", quoted(option->get_description()));
    }
  };
  options(app, "");
  for (const CLI::App* c : all_commands(app)) {
    text += fmt::format("complete -c planck -n __fish_use_subcommand -a {} -d {}\n", c->get_name(),
                        quoted(c->get_description()));
    const std::string inside =
        fmt::format(" -n {}", quoted("__fish_seen_subcommand_from " + c->get_name()));
    options(*c, inside);
    const std::string& name = c->get_name();
    if (name != "ops" && name != "completion" && name != "help")
      text += fmt::format("complete -c planck{} -F\n", inside);
  }
  text +=
      "complete -c planck -n '__fish_seen_subcommand_from run ops' -a '(planck ops --names "
      "2>/dev/null)'\n"
      "complete -c planck -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n";
  std::string commands;
  for (const CLI::App* c : all_commands(app)) commands += " " + c->get_name();
  text += fmt::format("complete -c planck -n '__fish_seen_subcommand_from help' -a {}\n",
                      quoted(commands.substr(1)));
  return text;
}

}  // namespace

void add_completion(CLI::App& app, int& exit_code) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that completes planck's words in a shell");
  command->add_option("shell", *shell, "Which one")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n"
      "  planck completion bash > ~/.local/share/bash-completion/completions/planck\n"
      "  planck completion zsh >> ~/.zshrc\n"
      "  planck completion fish > ~/.config/fish/completions/planck.fish");
  command->callback([&app, shell, &exit_code] {
    print(*shell == "fish" ? fish_lines(app) : *shell == "bash" ? bash_lines(app) : zsh_lines(app));
    exit_code = kOk;
  });
}

}  // namespace planck::cli
